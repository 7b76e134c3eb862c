/** Where it is measured: the masters, a process for each contender, and the masters' counters. */
import { randomUUID } from 'node:crypto'
import { Redis } from 'ioredis'
import { startFleet } from '../../src/testing/index.ts'
import type * as Bench from '../bench.ts'
import type { Setup } from '../peers/adapters.ts'
import type { FlowResult } from '../peers/library-child.ts'
import {
  libraries,
  type LibraryProcess,
  OURS,
  RAW,
  connectClient,
  type RemoteClient,
  startLibrary,
} from '../peers/libraries.ts'
import { figure, none, shown, tableOf, type Figure, type Table } from '../report.ts'
import { cpuMs, type Rounds, sum, type Value } from '../rounds.ts'

/** The lease of every load: the default of most of these libraries. */
export const LEASE_MS = 10_000
/** A multiple of every concurrency, so that no two clients meet. */
const RESOURCES = 10_240

/**
 * Of redlock-universal, its default. With a shorter limit it gives up on masters that are only
 * busy, and the leases it then leaves behind stand in its own way for their whole length.
 */
const UNIVERSAL = { masterTimeoutMs: 5_000 }

export type Row = Bench.Row<Harness>

/** By name, in the order of the tables. */
export const locks: readonly string[] = libraries.map(({ name }) => name)
export const peers = locks.filter((name) => name !== OURS)

function titleOf(contender: string): string {
  if (contender === RAW) return 'raw SET NX from Node'
  return libraries.find(({ name }) => name === contender)?.title ?? contender
}

export async function openHarness() {
  const fleet = await startFleet({ masters: 5, queue: false })
  const masters = fleet.urls.map((url) => new Redis(url, { maxRetriesPerRequest: null }))
  const processes = new Map<string, LibraryProcess>()
  return {
    fleet,
    /** A client of each contender under a new namespace, in the contender's process. */
    async open(
      contenders: readonly string[],
      options: (contender: string) => Partial<Setup> = () => ({}),
    ) {
      const clients = new Map<string, RemoteClient>()
      for (const name of contenders) {
        const process = processes.get(name) ?? (await startLibrary(name))
        processes.set(name, process)
        const namespace = `bench-${randomUUID().slice(0, 8)}`
        const setup = { urls: fleet.urls, namespace, waitMs: LEASE_MS, fresh: true }
        const own = name === 'redlock-universal' ? UNIVERSAL : {}
        clients.set(name, await connectClient(process, { ...setup, ...own, ...options(name) }))
      }
      const of = (contender: string): RemoteClient => {
        const client = clients.get(contender)
        if (client === undefined) throw new Error(`${contender} has no client`)
        return client
      }
      return {
        of,
        /** Acquires and releases free resources. */
        flow(contender: string, concurrency: number, durationMs: number): Promise<FlowResult> {
          const load = { concurrency, durationMs, resources: RESOURCES, ttlMs: LEASE_MS }
          return of(contender).load('flow', load)
        },
        async [Symbol.asyncDispose]() {
          for (const client of clients.values()) await client.close()
        },
      }
    },
    /** Processor time of all masters together. */
    async mastersCpuUs(): Promise<number> {
      const infos = await Promise.all(masters.map((redis) => redis.info('cpu')))
      return 1_000 * sum(infos.map(cpuMs))
    },
    /** On every master; what `EVALSHA` calls it. */
    async loadScript(lua: string): Promise<string> {
      const hashes = await Promise.all(masters.map((redis) => redis.script('LOAD', lua)))
      return String(hashes[0])
    },
    async [Symbol.asyncDispose](): Promise<void> {
      for (const process of processes.values()) await process.kill()
      for (const redis of masters) redis.disconnect()
      await fleet.close()
    },
  }
}

export type Harness = Awaited<ReturnType<typeof openHarness>>

/** A row for each contender. A column has a value of its rounds. */
export function lockTable<Result>(
  title: string,
  rounds: Rounds<string, Result>,
  columns: readonly (readonly [head: string, Value<Result>, Rounds<string, Result>?])[],
): Table {
  const cells = columns.map(([head, value, other = rounds]) => {
    return [head, (name: string) => shown(other.spread(name, value))] as const
  })
  return tableOf(title, rounds.contenders, [['', titleOf], ...cells])
}

/** Ours beside whichever of the others does best. */
export function besideBest<Result>(
  name: string,
  rounds: Rounds<string, Result>,
  value: Value<Result>,
  better: 'more' | 'less',
  limit: { readonly atMost?: number; readonly atLeast?: number } = {},
): Figure {
  const peer = rounds.best(peers, value, better)
  return figure(name, rounds.ratio(OURS, peer, value), 'x', { ...limit, beside: titleOf(peer) })
}

/** Of ours. */
export function noneMissed<Result>(rounds: Rounds<string, Result>, missed: Value<Result>): Figure {
  return none('… free resources that were not granted', rounds.sum(OURS, missed))
}
