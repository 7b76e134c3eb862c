/** A module for `work` whose process holds `LEASES` leases; every second one is taken in turns. */
import { setTimeout as pause } from 'node:timers/promises'
import { LockedWorker, type LockService, type WorkerContext } from '../src/index.ts'

const MAX_TURN_MS = 9_000
const POLL_MS = 100

/** Holds one resource until `stop` aborts. */
async function hold(redlock: LockService, nr: number, stop: AbortSignal): Promise<void> {
  const isOver = (): boolean => stop.aborted
  while (!isOver()) {
    const lease = await redlock.acquire(`customer:${nr}`, { autoExtend: true, waitMs: 60_000 })
    const until = performance.now() + (nr % 2 === 0 ? Infinity : MAX_TURN_MS * Math.random())
    while (performance.now() < until && !isOver()) await pause(POLL_MS)
    await lease.release()
  }
}

export const worker = ({ redlock, connection, signal }: WorkerContext): LockedWorker => {
  for (let nr = 0; nr < Number(process.env['LEASES']); nr++) {
    hold(redlock, nr, signal).catch(console.error)
  }
  const resource = (): string => 'customer:none'
  return new LockedWorker('invoices', () => Promise.resolve(), { connection, redlock, resource })
}
