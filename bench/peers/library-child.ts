/** The process in which one library runs, and the loads in it: does what it is told over IPC. */
import { setTimeout as delay } from 'node:timers/promises'
import { monotonicMs } from '../../test/faults/monotonic.ts'
import { item } from '../../test/support/proxied-masters.ts'
import { messageOf, serve } from '../../test/support/remote-process.ts'
import { adapters, type Client, type Held, type Setup } from './adapters.ts'
import { OURS } from './libraries.ts'
import { percentile } from '../rounds.ts'

/** How long after the end an answer may still come. */
const GRACE_MS = 8_000
const RELEASED_AT_ONCE = 256

/** Work under a lease. */
interface Work {
  /** When the library said that the lease is lost. */
  lostAt?: number
  /** What `using` came to. */
  settled?: string
  /** What came of taking the resource again inside the work. */
  inner?: 'granted' | 'refused'
}

interface Of {
  /** The number of the client. */
  readonly client: number
}

type Resource = Of & { readonly resource: string; readonly ttlMs: number }
type Load<Run extends (client: Client, load: never) => unknown> = Of & Parameters<Run>[1]

const name = process.argv[2] ?? ''
const clients: Client[] = []
const helds: Held[] = []
/** Of the last `hold`. */
let heldAtOnce: Held[] = []
const works: { readonly work: Work; finish: (error: string | undefined) => void }[] = []

if (name !== OURS) {
  // A library that lets a rejection escape is judged by what it tells its caller.
  process.on('unhandledRejection', () => undefined)
  process.on('uncaughtException', () => undefined)
}

const handlers = {
  async connect(setup: Setup) {
    const client = await adapters[name]?.(setup)
    if (client === undefined) throw new Error(`There is no adapter for ${name}`)
    return { client: clients.push(client) - 1, keyPrefix: client.keyPrefix }
  },
  async close({ client }: Of) {
    await item(clients, client).close()
  },
  async acquire({ client: index, resource, ttlMs }: Resource) {
    const client = item(clients, index)
    const startedAt = monotonicMs()
    try {
      const held = await client.acquire(resource, ttlMs)
      const tookMs = monotonicMs() - startedAt
      const known = { remainingMs: held.remainingMs(), fencingToken: held.fencingToken }
      return { status: 'held' as const, held: helds.push(held) - 1, tookMs, ...known }
    } catch (error) {
      const tookMs = monotonicMs() - startedAt
      const reason = await client.reason(error)
      return { status: 'refused' as const, tookMs, reason, message: messageOf(error) }
    }
  },
  isHeld: (held: number) => item(helds, held).isHeld(),
  async release(held: number) {
    await item(helds, held).release()
  },
  startUsing,
  work: (index: number) => item(works, index).work,
  finish: ({ work, error }: { readonly work: number; readonly error?: string | undefined }) => {
    item(works, work).finish(error)
  },
  flow: (load: Load<typeof flow>) => flow(item(clients, load.client), load),
  turns: (load: Load<typeof turns>) => turns(item(clients, load.client), load),
  hold: (load: Load<typeof hold>) => hold(item(clients, load.client), load),
  letGo,
}

export type Calls = {
  [Name in keyof typeof handlers]: {
    readonly argument: Parameters<(typeof handlers)[Name]>[0]
    readonly answer: Awaited<ReturnType<(typeof handlers)[Name]>>
  }
}
serve<Calls>(handlers)

/** Answers when the work has begun; it goes on until it is finished. */
function startUsing(asked: Resource & { readonly nested: boolean }): Promise<number> {
  const { resource, ttlMs, nested } = asked
  const client = item(clients, asked.client)
  const work: Work = {}
  const started = { work, finish: (): void => undefined } as (typeof works)[number]
  const index = works.push(started) - 1
  return new Promise((resolve, reject) => {
    const done = client.using(resource, ttlMs, async (onLost) => {
      onLost(() => {
        work.lostAt ??= monotonicMs()
      })
      if (nested) work.inner = await nest(client, resource, ttlMs)
      resolve(index)
      return new Promise<string>((complete, fail) => {
        started.finish = (error) => {
          if (error === undefined) complete('done')
          else fail(new Error(error))
        }
      })
    })
    done.then(
      (value) => (work.settled = value),
      (error: unknown) => {
        work.settled = messageOf(error)
        reject(new Error(work.settled))
      },
    )
  })
}

async function nest(client: Client, resource: string, ttlMs: number) {
  const inner = await client.acquire(resource, ttlMs).catch(() => undefined)
  await inner?.release()
  return inner === undefined ? 'refused' : 'granted'
}

// The loads of the lock benchmark.

export type FlowResult = Awaited<ReturnType<typeof flow>>

/**
 * Acquire and release, again and again, by this number at once, each with separate resources.
 * Nothing but the counting happens between the library's calls.
 */
async function flow(
  client: Client,
  load: Record<'ttlMs' | 'concurrency' | 'resources' | 'durationMs', number>,
) {
  const { ttlMs, concurrency, resources, durationMs } = load
  const acquireMs: number[] = []
  let done = 0
  let failed = 0
  let atWork = concurrency
  const cpu = process.cpuUsage()
  const begunAt = performance.now()
  const until = begunAt + durationMs
  const work = async (first: number): Promise<void> => {
    for (let index = first; performance.now() < until; index += concurrency) {
      const startedAt = performance.now()
      try {
        const lock = await client.acquire(`r${index % resources}`, ttlMs)
        acquireMs.push(performance.now() - startedAt)
        await lock.release()
        done++
      } catch {
        failed++ // Counted: what it was is the business of compare:safety.
      }
    }
    atWork--
  }
  const limit = new AbortController()
  await Promise.race([
    Promise.all(Array.from({ length: concurrency }, (_, first) => work(first))),
    delay(durationMs + GRACE_MS, undefined, { signal: limit.signal }).catch(() => undefined),
  ])
  const tookMs = performance.now() - begunAt
  const { user, system } = process.cpuUsage(cpu)
  limit.abort()
  return {
    perSecond: (done / tookMs) * 1_000,
    /** Not granted; or neither granted nor refused a while after the end. */
    missed: failed + atWork,
    /** For an acquire and its release. */
    clientUs: (user + system) / done,
    done,
    /** Of an acquire. */
    medianMs: part(acquireMs, 0.5),
    p99Ms: part(acquireMs, 0.99),
  }
}

/** This number of waiters want the same resource, again and again. */
async function turns(
  client: Client,
  load: Record<'ttlMs' | 'holdMs' | 'durationMs' | 'waiters', number>,
) {
  const { ttlMs, holdMs, durationMs, waiters } = load
  const waits: number[] = []
  const gaps: number[] = []
  let releasedAt: number | undefined
  let done = 0
  let inside = 0
  let overlaps = 0
  const until = performance.now() + durationMs
  const contend = async (): Promise<void> => {
    while (performance.now() < until) {
      const startedAt = performance.now()
      try {
        const lock = await client.acquire('contended', ttlMs)
        const grantedAt = performance.now()
        waits.push(grantedAt - startedAt)
        if (releasedAt !== undefined) gaps.push(grantedAt - releasedAt)
        if (inside++ > 0) overlaps++
        await delay(holdMs)
        inside--
        releasedAt = performance.now()
        await lock.release()
        if (performance.now() < until) done++
      } catch {
        waits.push(performance.now() - startedAt) // In vain, but waited.
      }
    }
  }
  await Promise.all(Array.from({ length: waiters }, contend))
  return {
    /** Turns that ended in time. */
    done,
    /** Moments in which two held it. */
    overlaps,
    longestMs: part(waits, 1),
    /** The median from the call that releases it to the next grant. */
    gapMs: part(gaps, 0.5),
  }
}

/** Takes this number of leases and keeps them until `letGo`. */
async function hold(
  client: Client,
  { ttlMs, leases, concurrency }: Record<'ttlMs' | 'leases' | 'concurrency', number>,
) {
  const locks = new Array<Held>(leases)
  let next = 0
  const before = heapBytes()
  const take = async (): Promise<void> => {
    for (let at = next++; at < leases; at = next++) {
      locks[at] = await client.acquire(`held${at}`, ttlMs)
    }
  }
  await Promise.all(Array.from({ length: concurrency }, take))
  // Replies of the masters that were not waited for are still on their way.
  await delay(100)
  const heap = heapBytes() - before
  heldAtOnce = locks
  /** `lost` counts those that were lost when the memory was read. */
  return { heapBytes: heap / leases, lost: locks.filter((lock) => !lock.isHeld()).length }
}

async function letGo(): Promise<void> {
  while (heldAtOnce.length > 0) {
    await Promise.all(heldAtOnce.splice(-RELEASED_AT_ONCE).map((lock) => lock.release()))
  }
}

/** 0 without a sample. */
function part(samples: readonly number[], of: number): number {
  return samples.length === 0 ? 0 : percentile(samples, of)
}

function heapBytes(): number {
  // Twice: what the first collection lets go of may hold more.
  globalThis.gc?.()
  globalThis.gc?.()
  return process.memoryUsage().heapUsed
}
