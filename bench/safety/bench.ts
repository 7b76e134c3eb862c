/**
 * What a hazard has to work with: real masters, a fault proxy in front of each, and clients of the
 * library that is under test, in processes of their own. Made anew for every row on the same
 * masters; a fault that is not seen to have happened ends the run.
 */
import { randomUUID } from 'node:crypto'
import { startFleet, type TestServer } from '../../src/testing/index.ts'
import type { ClockShim } from '../../test/faults/shimmed-clock.ts'
import { ProxiedMasters } from '../../test/support/proxied-masters.ts'
import type { Setup } from '../peers/adapters.ts'
import { startLibrary, type Acquired, type LibraryProcess } from '../peers/libraries.ts'
import { connectClient, type RemoteClient } from '../peers/libraries.ts'

interface ClientOptions extends Partial<Setup> {
  /** Only the first so many masters. */
  readonly masters?: number
}

async function openBench(library: Library, servers: readonly TestServer[]) {
  const masters = await ProxiedMasters.start(servers)
  const namespace = `s-${randomUUID().slice(0, 8)}`
  const clients: RemoteClient[] = []
  const client = async (
    { masters: count = 5, ...options }: ClientOptions = {},
    which: 0 | 1 = 0,
  ): Promise<RemoteClient> => {
    const urls = masters.urls.slice(0, count)
    const setup = { urls, namespace, waitMs: 0, fresh: clients.length === 0, ...options }
    const connected = await connectClient(await library.process(which), setup)
    clients.push(connected)
    return connected
  }
  return {
    ...{ library, masters },
    /** In the first process. */
    client,
    /** In the second process, past the proxies: another machine, as far as the library can tell. */
    other: (options: ClientOptions = {}) =>
      client({ urls: servers.map(({ url }) => url), ...options }, 1),
    /** A foreign key on some of the masters. */
    occupy: (key: string, indexes: readonly number[], ttlMs: number) =>
      Promise.all(
        indexes.map((index) => masters.connection(index).set(key, 'foreign', 'PX', ttlMs)),
      ),
    /** Milliseconds that each master keeps the key; 0 where it has none. */
    ttlsMs: (key: string) =>
      Promise.all(masters.connections.map(async (redis) => Math.max(0, await redis.pttl(key)))),
    /** @throws FaultNotSeenError when the fault that the row is about did not take place. */
    happened(fault: string, count: number): void {
      if (count <= 0) throw new FaultNotSeenError(`The fault did not happen: ${fault}`)
    },
    async close(): Promise<void> {
      await masters.pass()
      await Promise.all(clients.map((one) => one.close()))
      await masters[Symbol.asyncDispose]()
    },
  }
}

export type Bench = Awaited<ReturnType<typeof openBench>>

class FaultNotSeenError extends Error {}

interface Library {
  readonly name: string
  /** Of the masters; undefined where they cannot be set. */
  readonly clocks: ClockShim | undefined
  process(which: 0 | 1): Promise<LibraryProcess>
}

/** A library on masters of its own, which goes through one row after the other. */
export async function openLibrary(name: string, clocks: ClockShim | undefined) {
  const fleet = await startFleet({ masters: 5, queue: false })
  /** They go on from row to row, unless a row left something unanswered in one. */
  const processes = new Map<0 | 1, LibraryProcess>()
  const process = async (which: 0 | 1): Promise<LibraryProcess> => {
    const before = processes.get(which)
    if (before?.isStuck === false) return before
    await before?.kill()
    const started = await startLibrary(name)
    processes.set(which, started)
    return started
  }
  return {
    async meet(hazard: Hazard): Promise<Cell> {
      const bench = await openBench({ name, clocks, process }, fleet.masters)
      try {
        return await hazard.run(bench)
      } catch (error) {
        if (error instanceof FaultNotSeenError) throw error
        return fail(`could not go through it: ${(error as Error).message}`)
      } finally {
        await bench.close()
      }
    },
    async [Symbol.asyncDispose](): Promise<void> {
      for (const started of processes.values()) await started.kill()
      await fleet.close()
    },
  }
}

export interface Cell {
  readonly verdict: 'pass' | 'FAIL' | 'n/a'
  /** One line with what was measured. */
  readonly evidence: string
}

export interface Hazard {
  /** What a lock must do, as a row's heading. */
  readonly title: string
  /** What happens to the lock, in a sentence. */
  readonly scenario: string
  run(bench: Bench): Promise<Cell>
}

/**
 * Not what the libraries' documentation shows, but what their users can do: a limit on every
 * command of the connection.
 */
const TUNED = { commandTimeoutMs: 200 }

export const pass = (evidence: string): Cell => ({ verdict: 'pass', evidence })
export const fail = (evidence: string): Cell => ({ verdict: 'FAIL', evidence })
export const notApplicable = (evidence: string): Cell => ({ verdict: 'n/a', evidence })
/** Pass or fail. */
export const verdict = (isPassed: boolean, evidence: string): Cell =>
  isPassed ? pass(evidence) : fail(evidence)

/** A row that fails is measured again with {@link TUNED}, and says what came of it. */
export async function alsoTuned(
  bench: Bench,
  waitMs: number,
  measure: (client: RemoteClient, resource: string) => Promise<Cell>,
): Promise<Cell> {
  const first = await measure(await bench.client({ waitMs }), 'r')
  if (first.verdict !== 'FAIL') return first
  await bench.masters.pass()
  const tuned = await measure(await bench.client({ waitMs, ...TUNED }), 'r2')
  const words = `with ioredis commandTimeout ${TUNED.commandTimeoutMs}`
  return fail(`${first.evidence} (${words}: ${tuned.evidence})`)
}

export function milliseconds(ms: number): string {
  const magnitude = Math.abs(ms)
  if (magnitude >= 1_000) return `${(ms / 1_000).toFixed(1)} s`
  return `${magnitude < 10 ? ms.toFixed(1) : ms.toFixed(0)} ms`
}

export function outcomeOf(acquired: Acquired): string {
  if (acquired.status === 'pending') return `no answer in ${milliseconds(acquired.limitMs)}`
  const what = acquired.status === 'held' ? 'granted' : 'refused'
  return `${what} after ${milliseconds(acquired.tookMs)}`
}
