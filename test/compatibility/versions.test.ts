/**
 * Every version of BullMQ 6, each in a process of its own that has only that one. By default the
 * first, the last and one between are taken; `npm run test:versions` takes all.
 */
import { execFile } from 'node:child_process'
import { dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, expect, test } from 'vitest'
import { MAX_LEASE_MS, useFleet } from '../fixtures.ts'
import { ROWS } from './rows.ts'
import { publicSurface } from './surface.ts'
import type { VersionFacts, VersionSetup } from './version-child.ts'
import { installed, knownVersions, projectWith } from './versions.ts'

const fixture = useFleet({ masters: 3 })
/** Of the fleet that all processes find. */
let namespace = ''
beforeAll(async () => {
  ;({ namespace } = fixture)
  await fixture.redlock()
})
/** The first time, a version has to be installed. */
const limits = { timeout: 240_000 }
const CHILD_LIMIT_MS = 120_000

const known = await knownVersions()
const inRange = known.filter((version) => version.startsWith('6.'))
const last = inRange.at(-1) ?? ''
const before = known.filter((version) => version.startsWith('5.')).at(-1) ?? ''
const sample = [inRange[0], inRange[Math.floor(inRange.length / 2)], last]
const isComplete = process.env['BULLMQ_VERSIONS'] === 'all'
const chosen = [...new Set(isComplete ? inRange : sample)].filter((one) => one !== undefined)

async function inProcess(version: string, task: VersionSetup['task']): Promise<unknown> {
  await using project = await projectWith(version)
  const setup: VersionSetup = {
    task,
    connection: { host: fixture.fleet.queue.host, port: fixture.fleet.queue.port },
    masters: fixture.fleet.urls,
    namespace,
    maxLeaseMs: MAX_LEASE_MS,
    queueName: `q${version.replaceAll('.', '-')}`,
  }
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ['--import', 'tsx', project.child, JSON.stringify(setup)],
    { cwd: resolve(dirname(project.child), '../..'), timeout: CHILD_LIMIT_MS },
  )
  return JSON.parse(stdout.trim().split('\n').at(-1) ?? '')
}

const everyFourth = (first: number): number[] =>
  Array.from({ length: 5 }, (_, index) => first + 4 * index)

const EXPECTED: VersionFacts = {
  orders: { a: everyFourth(0), b: everyFourth(1), c: everyFourth(2), d: everyFourth(3) },
  overlaps: 0,
  drained: [0, 11],
  removed: [0, 11],
  cleaned: [0, 11],
  obliterated: [11],
  counts: { waiting: 0, active: 0, delayed: 1, failed: 0 },
  limited: { order: [0, 1, 2], isHeld: true },
  cancelled: ['failed', 'It was cancelled: test'],
}

test('there are versions to try', () => {
  expect(chosen.length).toBeGreaterThanOrEqual(3)
})

test.concurrent.each(chosen)(
  'BullMQ %s: order, removal, limits and cancelling',
  limits,
  async (version) => {
    expect(await inProcess(version, 'scenario')).toEqual(EXPECTED)
  },
)

test('the last version has no public member without a row', limits, async () => {
  const rows = new Set(ROWS.map(({ section, member }) => `${section}: ${member}`))
  const members = publicSurface(join(await installed(last), 'node_modules/bullmq/package.json'))
  const names = members.map(({ section, member }) => `${section}: ${member}`)
  expect(names.length).toBeGreaterThan(300)
  expect(names.filter((name) => !rows.has(name))).toEqual([])
})

test.concurrent(
  'BullMQ 5 is refused when a queue or a worker is made, with what to do',
  limits,
  async () => {
    const message = /bullmq.*6/i
    expect(await inProcess(before, 'refusal')).toEqual({
      queue: expect.stringMatching(message) as string,
      worker: expect.stringMatching(message) as string,
    })
  },
)

test.concurrent(
  'a backend that is not Redis is refused when a queue or a worker is made',
  limits,
  async () => {
    const message = /Redis/
    expect(await inProcess(last, 'backend')).toEqual({
      queue: expect.stringMatching(message) as string,
      worker: expect.stringMatching(message) as string,
    })
  },
)
