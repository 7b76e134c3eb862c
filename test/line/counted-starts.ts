/** When a queue's Redis counted each start of a resource for its rate. */
import { once } from 'node:events'
import { connect } from 'node:net'
import { createInterface } from 'node:readline'
import type { Fixture } from '../fixtures.ts'

/** How many of the starts came too early for a rate: of any n, n - burst need their time. */
export function tooEarly(
  starts: readonly number[],
  limit: number,
  perMs: number,
  burst: number,
): number {
  const sorted = [...starts].sort((a, b) => a - b)
  const interval = perMs / limit
  const slackMs = 2 // Of rounding.
  return sorted.filter((at, index) =>
    sorted.some(
      (first, from) =>
        from <= index && index - from + 1 > burst + (at - first + slackMs) / interval + 1e-6,
    ),
  ).length
}

/**
 * When the server counted each start of a resource, by the clock of its scripts. A machine that
 * stops for a moment between counting a job and giving it out does not change this.
 */
export async function countStarts(fixture: Fixture, resource: string): Promise<readonly number[]> {
  const { host, port } = fixture.fleet.queue
  const key = `bull:${fixture.namespace}:redlock:::rate:${resource}`
  const socket = connect({ host, port })
  fixture.defer(() => once(socket.destroy(), 'close'))
  socket.write('MONITOR\r\n')
  await once(socket, 'data') // OK.
  const starts: number[] = []
  createInterface(socket).on('line', (line) => {
    const words = line.split('"').filter((_, index) => index % 2 === 1)
    if (words[0] !== 'SET' || words[1] !== key) return
    const [, , due, , leftMs] = words
    starts.push(Number(due) - Number(leftMs))
  })
  return starts
}

interface Start {
  readonly nr: number
  readonly customer: string
  readonly at: number
}

/** The jobs of a resource that ran before as many starts were counted. */
export function ranUncounted(
  started: readonly Start[],
  resource: string,
  counted: readonly number[],
): readonly number[] {
  return started
    .filter(({ customer }) => customer === resource)
    .toSorted((a, b) => a.at - b.at)
    .flatMap(({ nr, at }, index) => (at < (counted[index] ?? Infinity) - 2 ? [nr] : []))
}
