/**
 * What most integration tests need: a fleet per file, and a Redlock with its own key prefix per
 * test.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import type { ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { Queue, type QueueOptions } from 'bullmq'
import { Cluster, Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll } from 'vitest'
import {
  LockedQueue,
  LockedWorker,
  Redlock,
  silentLogger,
  type Lease,
  type LeasedProcessor,
  type LockedQueueOptions,
  type LockedWorkerOptions,
  type RedlockOptions,
} from '../src/index.ts'
import { startFleet, type Fleet, type TestServer } from '../src/testing/index.ts'
import { fleetEnv } from './support/fleet-env.ts'
import { forkProgram } from './support/programs.ts'
import { undisturbed } from './support/undisturbed.ts'

/** A third of it is left for a machine that stands still, also where a lease is just renewed. */
const LEASE_MS = 6_000
/** Of each Redlock of a fixture, and of the processes beside it. */
export const MAX_LEASE_MS = 8_000

/** Without a connection they use the fleet's queue. */
type OnTheFleet<Options extends { readonly connection: unknown }> = Omit<Options, 'connection'> &
  Partial<Pick<Options, 'connection'>>

export interface Fixture {
  readonly fleet: Fleet
  /** Of the fleet's queue. */
  readonly connection: { readonly host: string; readonly port: number }
  /** Started, bootstrapped, closed after the test. */
  redlock(options?: Partial<RedlockOptions>): Promise<Redlock>
  /** A bare client of the fleet's queue, or of another server; closed after the test. */
  redis(server?: TestServer): Redis
  /** Closed after the test, as the next two; named as {@link namespace} by default. */
  lockedQueue<Data>(options: OnTheFleet<LockedQueueOptions<Data>>, name?: string): LockedQueue<Data>
  lockedWorker<Data>(
    processor: LeasedProcessor<Data, unknown>,
    options: OnTheFleet<LockedWorkerOptions<Data>>,
    name?: string,
  ): LockedWorker<Data>
  /** A client of a cluster, by the addresses of its nodes; closed after the test. */
  cluster(
    nodes: readonly Pick<TestServer, 'host' | 'port'>[],
    options?: ConstructorParameters<typeof Cluster>[1],
  ): Cluster
  /** BullMQ's own. */
  plainQueue<Data>(name?: string, options?: Partial<QueueOptions>): Queue<Data>
  /** The prefix that this test's Redlocks share. */
  readonly namespace: string
  /** It names the test's servers, for the command line. */
  readonly env: NodeJS.ProcessEnv
  /** A program with its setup in JSON, told to end (SIGTERM) after the test. */
  child(program: URL, setup: object): ChildProcess
  /** Done after the test, in reverse order. */
  defer(close: () => unknown): void
  /** Returns what it is given, which is closed after the test. */
  closing<Opened extends { close(): unknown }>(opened: Opened): Opened
  /** What the test's jobs wait for. Opened after the test at the latest, before anything closes. */
  gate(): Gate
  /**
   * For `test.each` of cases that wait most of the time: the first test runs all of them, four at
   * once, each on a fleet and in a namespace of its own. Each test ends as its case has ended.
   */
  together<Case>(
    cases: readonly Case[],
    run: (each: Case) => Promise<unknown>,
  ): (each: Case) => Promise<void>
  /** Runs a case again that failed while the machine stood still: {@link undisturbed}. */
  undisturbed<T>(run: () => Promise<T>): Promise<T>
}

export interface Gate {
  readonly passed: Promise<void>
  open(): void
}

/** More would be late on a busy machine. */
const AT_ONCE = 4
/** What closes no sooner is reported, and the others are closed. */
const CLOSE_LIMIT_MS = 30_000

export function useFleet(options: Parameters<typeof startFleet>[0] = {}): Fixture {
  let fleet: Fleet | undefined
  let namespace = ''
  /** Of a case among others. */
  const own = new AsyncLocalStorage<Pick<Fixture, 'fleet' | 'namespace'>>()
  const ownFleets: Fleet[] = []
  const closers: (() => unknown)[] = []
  const gates: Gate[] = []
  const started = (): Fleet => {
    const { fleet: ofCase = fleet } = own.getStore() ?? {}
    if (ofCase === undefined) throw new Error('the fleet is started in beforeAll')
    return ofCase
  }
  const servers = (): readonly TestServer[] =>
    [...(fleet === undefined ? [] : [fleet]), ...ownFleets].flatMap((each) => [
      ...each.masters,
      ...(options.queue === false ? [] : [each.queue]),
    ])
  const fresh = (): void => {
    namespace = newNamespace()
  }
  beforeAll(async () => {
    fleet = await startFleet(options)
    fresh()
  })
  /** A test that failed half-way must not take the next one with it. */
  const clear = async (): Promise<void> => {
    const closing = closers.splice(0).reverse()
    fresh()
    for (const gate of gates.splice(0)) gate.open()
    // First the servers: what closes waits for a master that is away.
    for (const server of servers()) await (server.running ? server.thaw() : server.restart())
    const failures: unknown[] = []
    for (const close of closing) await inTime(close).catch((error: unknown) => failures.push(error))
    await Promise.all(ownFleets.splice(0).map((each) => each.close()))
    if (failures.length > 0) throw failures[0]
  }
  afterEach(clear)
  afterAll(async () => {
    await fleet?.close()
  })
  const address = (): Fixture['connection'] => {
    const { host, port } = started().queue
    return { host, port }
  }
  const currentNamespace = (): string => own.getStore()?.namespace ?? namespace
  const apart = async <T>(run: () => Promise<T>): Promise<T> => {
    const ofCase = await startFleet(options)
    ownFleets.push(ofCase)
    return own.run({ fleet: ofCase, namespace: newNamespace() }, run)
  }
  // A fleet without a queue has no address.
  const onFleet = <Options extends { readonly connection?: unknown }>(options: Options) => ({
    ...options,
    connection: options.connection ?? address(),
  })
  const closing: Fixture['closing'] = (opened) => {
    closers.push(() => opened.close())
    return opened
  }
  return {
    closing,
    get fleet() {
      return started()
    },
    get connection() {
      return address()
    },
    get namespace() {
      return currentNamespace()
    },
    get env() {
      const queue = options.queue === false ? undefined : started().queue
      return fleetEnv(started().urls, currentNamespace(), queue?.url)
    },
    child(program, setup) {
      const stdio = ['ignore', 'inherit', 'inherit', 'ipc'] as const
      const child = forkProgram(program, [JSON.stringify(setup)], { stdio: [...stdio] })
      closers.push(async () => {
        if (child.exitCode !== null || child.signalCode !== null) return
        const exited = once(child, 'exit')
        child.kill('SIGTERM')
        await exited
      })
      return child
    },
    defer: (close) => closers.push(close),
    redis(server = started().queue) {
      const client = new Redis(server.url)
      closers.push(() => client.quit())
      return client
    },
    lockedQueue: (options, name = currentNamespace()) =>
      closing(new LockedQueue(name, onFleet(options))),
    lockedWorker(processor, options, name = currentNamespace()) {
      const worker = new LockedWorker(name, processor, onFleet(options))
      worker.on('error', () => undefined) // Servers and leases are hurt on purpose.
      return closing(worker)
    },
    cluster(nodes, options) {
      const cluster = new Cluster(
        nodes.map(({ host, port }) => ({ host, port })),
        { redisOptions: { maxRetriesPerRequest: null }, ...options },
      )
      cluster.on('error', () => undefined)
      closers.push(() => {
        cluster.disconnect()
      })
      return cluster
    },
    plainQueue: (name = currentNamespace(), options = {}) =>
      closing(new Queue(name, onFleet(options))),
    gate() {
      let open = (): void => undefined
      const passed = new Promise<void>((resolve) => {
        open = resolve
      })
      const gate = { passed, open }
      gates.push(gate)
      return gate
    },
    together(cases, run) {
      let outcomes: Promise<readonly PromiseSettledResult<unknown>[]> | undefined
      return async (each) => {
        outcomes ??= Promise.allSettled(
          cases.reduce<readonly Promise<unknown>[]>((begun, one) => {
            const before = begun.at(-AT_ONCE)?.catch(() => undefined)
            return [...begun, Promise.resolve(before).then(() => apart(() => run(one)))]
          }, []),
        )
        const outcome = (await outcomes)[cases.indexOf(each)]
        if (outcome?.status === 'rejected') throw outcome.reason
      }
    },
    undisturbed: (run) => undisturbed({ bystander: started().queue, clear }, run),
    async redlock(overrides = {}) {
      const { leaseMs = LEASE_MS } = overrides
      const redlock = new Redlock({
        masters: started().urls,
        leaseMs,
        maxLeaseMs: MAX_LEASE_MS,
        // Test files run beside each other: a healthy master may answer late.
        masterTimeoutMs: Math.ceil(leaseMs / 4),
        namespace: currentNamespace(),
        logger: silentLogger,
        ...overrides,
      })
      closers.push(() => redlock.close())
      // Only the first Redlock of a test meets a new fleet; later ones may find leases on it.
      await redlock.ready()
      if (redlock.status().masters.some(({ state }) => state === 'quarantined')) {
        await redlock.bootstrap({ newFleet: true, confirmed: true })
      }
      return redlock
    },
  }
}

function newNamespace(): string {
  return `t${randomBytes(5).toString('hex')}`
}

async function inTime(close: () => unknown): Promise<void> {
  const closed = new AbortController()
  const late = delay(CLOSE_LIMIT_MS, undefined, closed).then(
    () => Promise.reject(new Error(`not closed within ${CLOSE_LIMIT_MS} ms: ${close.toString()}`)),
    () => undefined, // It was closed before.
  )
  try {
    await Promise.race([close(), late])
  } finally {
    closed.abort()
  }
}

export interface Closers {
  readonly add: (close: () => Promise<unknown>) => void
  /** Returns what it is given, which is closed. */
  readonly closing: <Opened extends { close(): Promise<unknown> }>(opened: Opened) => Opened
}

/** What a test opens, closed after it in reverse order. */
export function useClosers(): Closers {
  const closers: (() => Promise<unknown>)[] = []
  afterEach(async () => {
    for (const close of closers.splice(0).reverse()) await close()
  })
  return {
    add: (close) => closers.push(close),
    closing(opened) {
      closers.push(() => opened.close())
      return opened
    },
  }
}

/** One attempt that must be granted; else the test fails with what the masters said. */
export async function granted(
  redlock: Redlock,
  resource: string | readonly string[],
  options: Parameters<Redlock['tryAcquire']>[1] = {},
): Promise<Lease> {
  const outcome = await redlock.tryAcquire(resource, options)
  if (outcome.status !== 'granted') {
    throw new Error(`expected a lease on ${resource.toString()}, got ${JSON.stringify(outcome)}`)
  }
  return outcome.lease
}

/** Whether an attempt is granted; its lease is released. */
export async function isGranted(redlock: Redlock, resource: string): Promise<boolean> {
  const outcome = await redlock.tryAcquire(resource)
  if (outcome.status === 'granted') await outcome.lease.release()
  return outcome.status === 'granted'
}

/** Looks again every few milliseconds until `condition` holds; fails after `limitMs`. */
export async function until(
  what: string,
  condition: () => boolean | Promise<boolean>,
  limitMs = 60_000,
): Promise<void> {
  const deadline = performance.now() + limitMs
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`gave up waiting until ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

/** Resolves with the signal's reason when it aborts. */
export function aborted(signal: AbortSignal): Promise<unknown> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(signal.reason)
    signal.addEventListener('abort', () => {
      resolve(signal.reason)
    })
  })
}
