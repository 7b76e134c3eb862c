import { randomBytes } from 'node:crypto'
import { startFleet } from '../src/testing/index.ts'
import { Redlock, silentLogger, LockedQueue, LockedWorker } from '../src/index.ts'
export const pause = (ms: number) => new Promise<void>((r) => setTimeout(r, ms))
export async function until(what: string, c: () => boolean | Promise<boolean>, ms = 15000) {
  const d = performance.now() + ms
  while (!(await c())) { if (performance.now() > d) throw new Error('gave up: ' + what); await pause(5) }
}
export async function world(opts: any = {}) {
  const fleet = await startFleet({ masters: 3 })
  const closers: (() => unknown)[] = []
  const mk = async (o: any = {}) => {
    const ns = o.namespace ?? 'n' + randomBytes(4).toString('hex')
    const redlock = new Redlock({ masters: fleet.urls, leaseMs: 6000, maxLeaseMs: 30000, masterTimeoutMs: 1500, namespace: 'shared', logger: silentLogger, ...o })
    await redlock.ready(); closers.push(() => redlock.close())
    return redlock
  }
  const redlock = await mk(opts)
  await redlock.bootstrap({ newFleet: true, confirmed: true } as any)
  const connection = { host: fleet.queue.host, port: fleet.queue.port }
  return {
    fleet, redlock, mk, connection, closers,
    name: () => 'q' + randomBytes(4).toString('hex'),
    queue(name: string, o: any = {}) {
      const q = new LockedQueue<any>(name, { connection, resource: (d: any) => Array.isArray(d.r) ? d.r : name + d.r, ...o })
      q.on('error', () => undefined)
      closers.push(() => q.close()); return q
    },
    worker(name: string, p: any, o: any = {}) {
      const w = new LockedWorker<any>(name, p, { connection, redlock, concurrency: 4, resource: (j: any) => Array.isArray(j.data.r) ? j.data.r : name + j.data.r, logger: silentLogger, ...o })
      w.on('error', () => undefined)
      closers.push(() => w.close()); return w
    },
    async end() { for (const c of closers.splice(0).reverse()) await Promise.race([c(), pause(5000)]); await fleet.close() },
  }
}
