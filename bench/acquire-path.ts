/**
 * What one uncontended `acquire` runs: source files and functions, by V8's coverage. A reader has
 * to read these, so their number is kept small. It measures the built package.
 *
 *   npm run bench:path
 */
import { Session } from 'node:inspector/promises'
import { basename } from 'node:path'
import { startFleet } from '../src/testing/index.ts'
import { Redlock, silentLogger } from './built.ts'

const WARM_UP = 50

interface Ran {
  readonly file: string
  readonly functions: readonly string[]
}

async function coverage(session: Session): Promise<readonly Ran[]> {
  const { result } = await session.post('Profiler.takePreciseCoverage')
  return result
    .filter(({ url }) => url.includes('/dist/'))
    .map(({ url, functions }) => ({
      file: url.slice(url.indexOf('/dist/') + '/dist/'.length),
      functions: functions
        .filter(({ ranges }) => (ranges[0]?.count ?? 0) > 0)
        .map(({ functionName }) => functionName),
    }))
    .filter(({ functions }) => functions.length > 0)
}

const fleet = await startFleet({ masters: 5, queue: false })
const redlock = new Redlock({ masters: fleet.urls, logger: silentLogger })
await redlock.bootstrap({ newFleet: true })
const session = new Session()
session.connect()
await session.post('Profiler.enable')
await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
for (let index = 0; index < WARM_UP; index++) {
  const lease = await redlock.acquire(`warm-${index}`)
  await lease.release()
}
// The slowest masters' answers to the last release.
await new Promise((resolve) => setTimeout(resolve, 50))
await coverage(session)
const lease = await redlock.acquire('r')
const ran = await coverage(session)
await lease.release()
await redlock.close()
await fleet.close()

for (const { file, functions } of ran) {
  const names = functions.map((name) => (name === '' ? '(anonymous)' : name))
  console.log(`${file.padEnd(40)} ${String(functions.length).padStart(3)}  ${names.join(' ')}`)
}
const total = ran.reduce((sum, { functions }) => sum + functions.length, 0)
console.log(`${basename(import.meta.url)}: ${ran.length} files, ${total} functions`)
