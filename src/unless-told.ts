import type { EventEmitter } from 'node:events'

/** Ends as `waiting` does, or when the event is told before. */
export async function unlessTold(
  waiting: Promise<void>,
  teller: Pick<EventEmitter, 'once' | 'off'>,
  event: string,
): Promise<void> {
  let end = (): void => undefined
  const told = new Promise<void>((resolve) => {
    end = resolve
  })
  teller.once(event, end)
  try {
    await Promise.race([waiting, told])
  } finally {
    teller.off(event, end)
  }
}
