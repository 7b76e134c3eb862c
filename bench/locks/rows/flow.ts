/** Acquire and release of free resources: beside bounds, over a slow network, with a slow disk. */
import { execFile } from 'node:child_process'
import { closeSync, fdatasyncSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { findProgram } from '../../../scripts/find-program.ts'
import { startFleet } from '../../../src/testing/index.ts'
import { ProxiedMasters } from '../../../test/support/proxied-masters.ts'
import { OURS, RAW } from '../../peers/libraries.ts'
import type { FlowResult } from '../../peers/library-child.ts'
import { COMPARE_AND_DELETE } from '../../peers/raw.ts'
import { figure, number, shown, type Figure, type Measured, type Table } from '../../report.ts'
import { median, spread, takeTurns, type Effort, type Rounds } from '../../rounds.ts'
import {
  besideBest,
  locks,
  lockTable,
  noneMissed,
  peers,
  type Harness,
  type Row,
} from '../harness.ts'

const CONCURRENCY = [1, 16, 64, 256]
const MANY = 64
/** Of the rows in which the masters are slower. */
const FEWER = CONCURRENCY.slice(0, 3)

type Level = Awaited<ReturnType<typeof measure>>

export const acquire: Row = {
  name: 'acquire',
  load: 'Acquire and release of free resources, this number at a time. CPU is for one acquire and its release.',
  async run(harness, effort): Promise<Measured> {
    const levels = new Map<number, Level>()
    for (const concurrency of effort.of(CONCURRENCY, [1, MANY])) {
      levels.set(concurrency, await measure(harness, effort, concurrency, false))
    }
    const pipelined = await measure(harness, effort, MANY, true)
    const [alone = pipelined, many = pipelined] = [levels.get(1), levels.get(MANY)]
    const all = [...levels.values(), pipelined]
    const [perSecond, cpu] = ['Leases per second with fencing', 'Client CPU per lease']
    const tuned = '… beside peers with enableAutoPipelining'
    const figures = [
      besideBest(`${perSecond}, ${MANY} at a time`, many.rounds, 'perSecond', 'more', {
        atLeast: 4,
      }),
      besideBest(tuned, pipelined.rounds, 'perSecond', 'more'),
      besideBest(`${cpu}, ${MANY} at a time`, many.rounds, 'clientUs', 'less', { atMost: 0.2 }),
      besideBest(tuned, pipelined.rounds, 'clientUs', 'less'),
      besideBest('Median time of an acquire, 1 at a time', alone.rounds, 'medianMs', 'less', {
        atMost: 1,
      }),
      ...all.map(({ rounds }) => noneMissed(rounds, 'missed')),
    ]
    return { figures, tables: all.map(({ table }) => table) }
  },
}

async function measure(harness: Harness, effort: Effort, concurrency: number, isTuned: boolean) {
  const tuned = ", the other libraries with ioredis' `enableAutoPipelining`"
  const title = `${concurrency} at a time${isTuned ? tuned : ''}`
  console.error(`acquire: ${title}`)
  const contenders = [...locks, RAW]
  await using clients = await harness.open(contenders, () => ({ autoPipelining: isTuned }))
  const rounds = await takeTurns(contenders, effort, async (contender) => {
    const before = await harness.mastersCpuUs()
    const result = await clients.flow(contender, concurrency, effort.of(1_000, 60))
    return { ...result, mastersUs: ((await harness.mastersCpuUs()) - before) / result.done }
  })
  const bounds: number[] = []
  for (let round = 0; round < effort.rounds; round++) {
    bounds.push(await askRedisBenchmark(harness, concurrency, effort.of(20_000, 1_000)))
  }
  const table = lockTable(title, rounds, [
    ['leases/s', 'perSecond'],
    ['acquire p50, ms', 'medianMs'],
    ['p99, ms', 'p99Ms'],
    ['client CPU, µs', 'clientUs'],
    ['masters CPU, µs', 'mastersUs'],
  ])
  const bound = ['redis-benchmark', shown(spread(bounds)), '', '', '', '']
  return { rounds, table: { ...table, rows: [...table.rows, bound] } }
}

const LIMIT_MS = 60_000
const KEYS = 10_000

/**
 * What the masters could do at best: redis-benchmark asks all five at once, each over one
 * connection. It is asked in whole pipelines, because with another number of requests it now and
 * then takes its own end for a loss.
 *
 * @returns how often a second it did `SET NX PX` and a compare-and-delete on every master; NaN
 * where redis-benchmark is not installed.
 */
async function askRedisBenchmark(harness: Harness, atOnce: number, requests: number) {
  const program = findProgram('redis-benchmark') ?? findProgram('valkey-benchmark')
  if (program === undefined) return NaN
  const whole = Math.ceil(requests / atOnce) * atOnce
  const key = 'bound:__rand_int__'
  const commands = [
    ['SET', key, 'token', 'NX', 'PX', '10000'],
    ['EVALSHA', await harness.loadScript(COMPARE_AND_DELETE), '1', key, 'token'],
  ]
  let secondsEach = 0
  for (const command of commands) {
    const rates = harness.fleet.masters.map(({ host, port }) => {
      const flags = ['-h', host, '-p', `${port}`, '-c', '1', '-P', `${atOnce}`]
      const size = ['-n', `${whole}`, '-r', `${KEYS}`, '--csv']
      return rateOf(program, [...flags, ...size, ...command])
    })
    secondsEach += 1 / Math.min(...(await Promise.all(rates)))
  }
  return 1 / secondsEach
}

async function rateOf(program: string, args: readonly string[]): Promise<number> {
  const { stdout } = await promisify(execFile)(program, args, { timeout: LIMIT_MS })
  // "test","rps","avg_latency_ms",… and a line for the test, whose name may have commas.
  const rate = /^.*?"(\d+\.\d+)","/m.exec(stdout.split('\n').slice(1).join('\n'))?.[1]
  if (rate === undefined) throw new Error(`${program} said no rate: ${stdout}`)
  return Number(rate)
}

const ADDED_MS = [0, 1, 5]

export const roundTrip: Row = {
  name: 'round-trip',
  load: 'As `acquire`, through a proxy that adds this time to the round trip to every master.',
  async run(harness, effort): Promise<Measured> {
    const figures: Figure[] = []
    /** By concurrency. */
    const columns = new Map<number, (readonly [string, Rounds<string, FlowResult>])[]>()
    for (const addedMs of effort.some(ADDED_MS)) {
      await using proxies = await ProxiedMasters.start(harness.fleet.masters)
      for (const proxy of proxies.proxies) proxy.delay({ repliesMs: addedMs })
      await using clients = await harness.open(locks, () => ({ urls: proxies.urls }))
      for (const concurrency of effort.some(FEWER)) {
        const name = `Leases per second, ${addedMs} ms added, ${concurrency} at a time`
        console.error(name)
        const rounds = await takeTurns(locks, effort, (contender) =>
          clients.flow(contender, concurrency, effort.of(500, 60)),
        )
        columns.set(concurrency, [...(columns.get(concurrency) ?? []), [`${addedMs} ms`, rounds]])
        if (addedMs > 0) figures.push(besideBest(name, rounds, 'perSecond', 'more'))
        figures.push(noneMissed(rounds, 'missed'))
      }
    }
    const tables = [...columns].flatMap(([concurrency, [first, ...others]]) => {
      if (first === undefined) return []
      const table = lockTable(`${concurrency} at a time`, first[1], [
        [`leases/s, ${first[0]} added`, 'perSecond'],
        ...others.map(([head, rounds]) => [head, 'perSecond', rounds] as const),
        [`acquire p50, ms, ${first[0]}`, 'medianMs'],
        ...others.map(([head, rounds]) => [head, 'medianMs', rounds] as const),
      ])
      return [table]
    })
    return { tables, figures }
  },
}

const SYNCED = { appendonly: 'yes', appendfsync: 'always' }
const SYNCS = 100

export const fsync: Row = {
  name: 'fsync',
  load: 'As `acquire`, on masters without persistence and on masters with `appendfsync always`, in turns.',
  async run(harness, effort): Promise<Measured> {
    await using fleet = await startFleet({ masters: 5, queue: false, config: SYNCED })
    await using onMemory = await harness.open(locks)
    await using onDisk = await harness.open(locks, () => ({ urls: fleet.urls }))
    const disk = `fdatasync of this disk: ${syncMs().toFixed(2)} ms`
    const forMs = effort.of(500, 60)
    const tables: Table[] = []
    const figures: Figure[] = []
    for (const concurrency of effort.some(FEWER)) {
      console.error(`fsync: ${concurrency} at a time`)
      const rounds = await takeTurns(locks, effort, async (contender) => {
        const memory = await onMemory.flow(contender, concurrency, forMs)
        const synced = await onDisk.flow(contender, concurrency, forMs)
        return { memory, synced, part: synced.perSecond / memory.perSecond }
      })
      const table = lockTable(`${concurrency} at a time; ${disk}`, rounds, [
        ['leases/s', ({ memory }) => memory.perSecond],
        ['with fsync', ({ synced }) => synced.perSecond],
        ['of it', 'part'],
        ['acquire p50, ms', ({ memory }) => memory.medianMs],
        ['with fsync', ({ synced }) => synced.medianMs],
      ])
      tables.push(table)
      const name = `Leases per second with \`appendfsync always\`, ${concurrency} at a time, of without`
      // The peer in the middle.
      const beside = `peers ${number(median(peers.map((peer) => rounds.median(peer, 'part'))))}`
      figures.push(
        figure(name, rounds.spread(OURS, 'part'), 'x', { beside }),
        noneMissed(rounds, ({ synced }) => synced.missed),
      )
    }
    return { tables, figures }
  },
}

/** What the disk takes for one small write, in the middle of many. */
function syncMs(): number {
  const directory = mkdtempSync(join(tmpdir(), 'fsync-'))
  const file = openSync(join(directory, 'file'), 'w')
  const times = Array.from({ length: SYNCS }, () => {
    const startedAt = performance.now()
    writeSync(file, 'x'.repeat(100))
    fdatasyncSync(file)
    return performance.now() - startedAt
  })
  closeSync(file)
  rmSync(directory, { recursive: true })
  return median(times)
}
