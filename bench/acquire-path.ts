/**
 * What one uncontended `acquire` runs. It measures the built package.
 */
import { startFleet } from '../src/testing/index.ts'
import { Redlock, silentLogger } from './built.ts'
import { PathCoverage, printPath } from './path-coverage.ts'

const WARM_UP = 50

const fleet = await startFleet({ masters: 5, queue: false })
const redlock = new Redlock({ masters: fleet.urls, logger: silentLogger })
await redlock.bootstrap({ newFleet: true })
const coverage = await PathCoverage.start()
for (let index = 0; index < WARM_UP; index++) {
  const lease = await redlock.acquire(`warm-${index}`)
  await lease.release()
}
// The slowest masters' answers to the last release.
await new Promise((resolve) => setTimeout(resolve, 50))
await coverage.take()
const lease = await redlock.acquire('r')
const ran = await coverage.take()
await lease.release()
await redlock.close()
await fleet.close()
printPath('acquire', ran)
