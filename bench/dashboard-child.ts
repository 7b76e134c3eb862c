/**
 * A module for `work` whose process holds `LEASES` leases: half of them are kept, the others are
 * given back and taken again.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { LockedWorker, type LockService, type WorkerContext } from '../src/index.ts'

const MAX_TURN_MS = 9_000
const POLL_MS = 100

const isOver = ({ aborted }: AbortSignal): boolean => aborted

/** Holds one resource, in turns or without a pause, until `stop` aborts. */
async function hold(redlock: LockService, nr: number, stop: AbortSignal): Promise<void> {
  while (!isOver(stop)) {
    const lease = await redlock.acquire(`customer:${nr}`, { autoExtend: true, waitMs: 60_000 })
    const until = performance.now() + (nr % 2 === 0 ? Infinity : MAX_TURN_MS * Math.random())
    while (performance.now() < until && !isOver(stop)) await pause(POLL_MS)
    await lease.release()
  }
}

export const worker = ({
  redlock,
  connection,
  signal,
}: WorkerContext): LockedWorker<unknown, null> => {
  for (let nr = 0; nr < Number(process.env['LEASES']); nr++) {
    hold(redlock, nr, signal).catch((error: unknown) => {
      console.error(String(error))
    })
  }
  return new LockedWorker<unknown, null>('invoices', () => Promise.resolve(null), {
    connection,
    redlock,
    resource: () => 'customer:none',
  })
}
