/**
 * Many resources at once, in one process: does everybody get a lease in the end, or do attempts
 * that time out and are tried again keep the process too busy to ever succeed?
 *
 *   npm run bench:overload -- [--acquires 1000] [--burners 0] [--wait-ms 30000] [--json]
 *
 * `--burners` starts so many processes that do nothing but use the processor. Exit code 1 when not
 * all were granted.
 */
import { spawn } from 'node:child_process'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { parseArgs } from 'node:util'
import { Redlock, type Logger } from '../src/index.ts'
import { provisionServer } from '../scripts/provision-server.ts'
import { startFleet } from '../src/testing/index.ts'

const { values } = parseArgs({
  options: {
    acquires: { type: 'string', default: '1000' },
    burners: { type: 'string', default: '0' },
    'wait-ms': { type: 'string', default: '30000' },
    json: { type: 'boolean', default: false },
  },
})
const acquires = Number(values.acquires)
const waitMs = Number(values['wait-ms'])
const ignore = (): void => undefined
const logger: Logger = { debug: ignore, info: ignore, warn: ignore, error: ignore }

await provisionServer({ install: true, say: console.error })
await using fleet = await startFleet({ masters: 5, queue: false })
const redlock = new Redlock({ masters: fleet.urls, leaseMs: 2_000, maxLeaseMs: 2_000, logger })
await redlock.bootstrap({ newFleet: true })
const burners = Array.from({ length: Number(values.burners) }, () =>
  spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' }),
)

const loop = monitorEventLoopDelay()
loop.enable()
const startedAt = performance.now()
const outcomes = await Promise.all(Array.from({ length: acquires }, (_, index) => turn(index)))
const figures = {
  acquires,
  burners: burners.length,
  granted: outcomes.filter(Boolean).length,
  ms: Math.round(performance.now() - startedAt),
  longestBlockMs: Math.round(loop.max / 1e6),
}
for (const burner of burners) burner.kill('SIGKILL')
await redlock.close()
if (values.json) console.log(JSON.stringify(figures))
else console.table(figures)
process.exitCode = figures.granted === acquires ? 0 : 1

async function turn(index: number): Promise<boolean> {
  try {
    const lease = await redlock.acquire(`resource:${index}`, { waitMs })
    await lease.release()
    return true
  } catch {
    return false // Counted: what is asked here is whether it happens at all.
  }
}
