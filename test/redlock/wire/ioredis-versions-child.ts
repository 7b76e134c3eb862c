/** One lock life on whatever ioredis is found beside it; prints what it saw. */
import { Redlock, silentLogger } from '../../../src/index.ts'
import { usesOwnCommands } from '../../../src/redlock/wire/batch-sender.ts'

const urls = process.argv.slice(2)
const redlock = new Redlock({ masters: urls, namespace: `v${process.pid}`, logger: silentLogger })
await redlock.bootstrap({ newFleet: true })

const together = await Promise.all(
  Array.from({ length: 200 }, (_, index) => redlock.acquire(`r${index}é`, { waitMs: 10_000 })),
)
const extended = await Promise.all(together.map((lease) => lease.extend()))
const taken = await redlock.tryAcquire('r0é')
await Promise.all(together.map((lease) => lease.release()))
const both = await redlock.acquire(['a', 'b'])
const inspected = await redlock.inspect('a')
const next = redlock.handOver(both)
const waiting = redlock.acquire('a', { waitMs: 5_000 })
await next?.release()
const waited = await waiting
await waited.release()
await redlock.close()
console.log(
  JSON.stringify({
    ownCommands: usesOwnCommands(),
    granted: together.length,
    extended: extended.filter(({ status }) => status === 'extended').length,
    taken: taken.status,
    holderSeen: inspected.holder !== undefined,
    handedOver: next !== undefined,
    increasing: waited.fencingToken > both.fencingToken,
  }),
)
