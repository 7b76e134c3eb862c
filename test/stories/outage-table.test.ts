/**
 * Every outage × every command that looks: the exit code, and that nothing is said which is not known. A command that
 * waits for a dead server without a limit fails by the time limit of its row.
 */
import { afterAll, expect, it, vi } from 'vitest'
import { Queue } from 'bullmq'
import { cli, fleetEnv, type Said } from '../cli/run-cli.ts'
import { openRedis } from '../cli/open-redis.ts'
import { granted, useFleet } from '../fixtures.ts'
import { serve } from '../dashboard/rig.ts'
import { watchLeaks } from '../support/leaks.ts'

vi.setConfig({ testTimeout: 120_000 })

const leaks = watchLeaks()
afterAll(() => leaks.assertNone())
const fixture = useFleet({ masters: 5 })

type Command = 'doctor' | 'leases' | 'inspect' | 'release' | 'leaks' | 'why' | 'watch'

interface Outage {
  readonly dead?: number
  readonly frozen?: number
  /** A master that may evict keys, and is refused by workers. */
  readonly refused?: boolean
  readonly queueDead?: boolean
  /** A quorum of the masters answers. */
  readonly known: boolean
  readonly codes: Readonly<Record<Command, number>>
}

const GOOD = { doctor: 1, leases: 0, inspect: 0, release: 0, leaks: 0, why: 0, watch: 0 }
const NONE = { ...GOOD, doctor: 3, leases: 3, inspect: 3, release: 3, leaks: 3, watch: 3 }

// `doctor` ends with 1 also where all is well: the queue of a test writes nothing to disk.
const OUTAGES: Readonly<Record<string, Outage>> = {
  'no outage': { known: true, codes: GOOD },
  '1 of 5 masters dead': { dead: 1, known: true, codes: GOOD },
  '2 of 5 masters dead': { dead: 2, known: true, codes: GOOD },
  '3 of 5 masters dead': { dead: 3, known: false, codes: NONE },
  '5 of 5 masters dead': { dead: 5, known: false, codes: NONE },
  '3 of 5 masters frozen': { frozen: 3, known: false, codes: NONE },
  'one master refused': { refused: true, known: true, codes: GOOD },
  "the queue's Redis dead": {
    ...{ queueDead: true, known: true },
    codes: { ...GOOD, inspect: 1, why: 1 },
  },
}

async function strike({ dead = 0, frozen = 0, refused, queueDead }: Outage): Promise<void> {
  const { masters, urls, queue } = fixture.fleet
  for (const master of masters.slice(0, dead)) await master.kill()
  for (const master of masters.slice(0, frozen)) {
    fixture.defer(() => master.thaw())
    await master.freeze()
  }
  if (refused === true) {
    const redis = openRedis(urls[0] ?? '', fixture)
    await redis.config('SET', 'maxmemory-policy', 'allkeys-lru')
    fixture.defer(() => redis.config('SET', 'maxmemory-policy', 'noeviction'))
  }
  if (queueDead === true) {
    await queue.kill()
    fixture.defer(() => queue.restart())
  }
}

it.each(Object.entries(OUTAGES))('%s', async (_name, outage) => {
  const { fleet, namespace } = fixture
  const redlock = await fixture.redlock({ leaseMs: 60_000, maxLeaseMs: 60_000 })
  await granted(redlock, 'customer:42')
  const name = `q-${namespace}`
  const queue = new Queue(name, { connection: { url: fleet.queue.url } })
  await queue.add('post', {}, { jobId: 'a' })
  await queue.close()
  await strike(outage)
  const env = fleetEnv(fleet.urls, namespace, fleet.queue.url)
  const run = (...args: readonly string[]): Promise<Said> => cli(args, { env })
  const commands: Readonly<Record<Command, readonly string[]>> = {
    doctor: ['doctor'],
    leases: ['leases'],
    inspect: ['inspect', 'customer:42'],
    release: ['release', 'unused', '--force'],
    leaks: ['leaks'],
    why: ['why', name, 'a'],
    watch: ['watch', '--frames', '1'],
  }
  const codes: Record<string, number | null> = {}
  const said: Record<string, string> = {}
  for (const [command, args] of Object.entries(commands)) {
    const { code, out } = await run(...args)
    codes[command] = code
    said[command] = out
  }
  expect(codes).toEqual(outage.codes)
  if (outage.known) {
    expect(said['leases']).toMatch(/customer:42 +held/)
    expect(said['inspect']).toContain('customer:42 is held by')
  } else {
    expect(said['leases']).toContain('Who holds what is not known')
    expect(said['inspect']).toContain('Who holds customer:42 is not known')
    expect(said['release']).toContain('may still be held')
    expect(said['watch']).toContain('Who holds what is not known')
    expect(said['leaks']).not.toBe('no leaks\n')
  }
  const page = await serve(fixture)
  const { leases, lines } = await page.state()
  expect(leases.known).toBe(outage.known)
  if (outage.queueDead === true) expect(lines).toHaveProperty('problem')
})
