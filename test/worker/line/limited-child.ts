/**
 * A worker process for the tests of limits: says over IPC when a job starts and ends, and what
 * ended it.
 */
import { LockedWorker, Redlock, silentLogger } from '../../../src/index.ts'

export interface ChildSetup {
  readonly queue: string
  readonly connection: { readonly host: string; readonly port: number }
  readonly masters: readonly string[]
  readonly namespace: string
  readonly workMs: number
  readonly concurrency: number
  /** How far the clock of the process is ahead. */
  readonly aheadMs: number
}

export interface ChildReport {
  readonly what: 'started' | 'ended' | 'requeued'
  readonly customer: string
  readonly nr: number
  /** On the clock that all processes of the machine share. */
  readonly at: number
  /** The reason of the job's signal, in words. */
  readonly stopped?: string
}

const setup = JSON.parse(process.argv[2] ?? '') as ChildSetup
const { queue, connection, masters, namespace, workMs, aheadMs, concurrency } = setup
const clock = Date.now.bind(Date)
Date.now = () => clock() + aheadMs
const redlock = new Redlock({
  ...{ masters, namespace, leaseMs: 2_000, maxLeaseMs: 3_000, logger: silentLogger },
})
const report = (what: ChildReport['what'], data: object, more = {}): void => {
  process.send?.({ what, ...data, at: clock(), ...more })
}
const worker = new LockedWorker<{ customer: string; nr: number }>(
  queue,
  async ({ data }, lease) => {
    report('started', data)
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(resolve, workMs)
      lease.signal.addEventListener('abort', () => {
        clearTimeout(timer)
        report('ended', data, { stopped: String(lease.signal.reason) })
        reject(new Error('stopped'))
      })
    })
    report('ended', data)
  },
  {
    ...{ connection, redlock, concurrency, logger: silentLogger },
    resource: ({ data }) => data.customer,
  },
)
worker.on('requeued', ({ data }) => {
  report('requeued', data)
})
worker.on('error', () => undefined)
process.once('SIGTERM', () => {
  void worker
    .close(true)
    .then(() => redlock.close())
    .then(() => {
      process.disconnect()
    })
})
