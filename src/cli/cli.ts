/** What a command is given, and what is closed after it. */
import { silentLogger } from '../logger.ts'
import type { LockClient } from '../lock/lock-client.ts'
import type { LockOptions } from '../lock/lock-settings.ts'
import { FleetProbe } from '../operator/fleet-probe.ts'
import { fleetView, serviceView, type LockView } from '../operator/lock-view.ts'
import { openLocks } from '../operator/open-locks.ts'
import { QueueView } from '../operator/queue-view.ts'
import { maxLeaseOf, surveyFleet } from '../operator/survey.ts'
import type { MasterAddress } from '../redis/connection-settings.ts'
import { EXIT, UsageError, type ExitCode } from './exit-code.ts'
import { aborted, watchSignals, type Interruption } from './interruption.ts'
import { Output } from './output.ts'
import { redacted } from '../redact.ts'
import {
  mastersOf,
  queueRedisOf,
  readSettings,
  type SettingFlags,
  type Settings,
} from './settings.ts'
import { messageOf } from '../message-of.ts'

export interface SharedFlags extends SettingFlags {
  readonly json?: boolean
}

export interface Cli {
  readonly settings: Settings
  readonly out: Output
  /** Aborts at the first SIGINT or SIGTERM. */
  readonly signal: AbortSignal
  /** What `--locks` names, closed after the command; to look only, unless there are options. */
  locks(options?: LockOptions): Promise<LockClient | undefined>
  /** Either of them. */
  view(): Promise<LockView>
  /** The masters; closed after the command. */
  fleet(timeoutMs?: number): FleetProbe
  /** As it was given, or else as the masters have it stored. */
  maxLeaseMs(): Promise<number | undefined>
  /** The queue's Redis; closed after the command. Undefined when none is configured. */
  queue(timeoutMs?: number): QueueView | undefined
  /**
   * The queue's Redis.
   *
   * @throws UsageError when none is configured, and Error when it does not answer.
   */
  requiredQueue(): Promise<QueueView>
  /** Closed after the command, in reverse order. */
  defer(close: () => unknown): void
}

export type Task = (cli: Cli) => Promise<ExitCode>

export interface TaskOptions {
  /** The command ends by itself when `signal` aborts; others are left where they are. */
  readonly graceful?: boolean
  /** It runs code of others, which may have opened what would keep the process alive. */
  readonly foreignCode?: boolean
}

/** Runs one command to its end, whatever that is; never throws. */
export async function runTask(
  flags: SharedFlags,
  task: Task,
  { graceful = false, foreignCode = false }: TaskOptions = {},
): Promise<ExitCode> {
  const out = new Output(flags.json === true)
  const closers: (() => unknown)[] = []
  using interruption = watchSignals()
  let code: ExitCode
  try {
    const running = task(openCli(readSettings(flags, process.env), out, interruption, closers))
    const interrupted = aborted(interruption.signal).then(() => EXIT.interrupted)
    code = await (graceful ? running : Promise.race([running, interrupted]))
  } catch (error) {
    code = reportError(out, error)
  }
  for (const close of closers.reverse()) await close()
  if (foreignCode) process.exit(code)
  return code
}

function openCli(
  settings: Settings,
  out: Output,
  interruption: Interruption,
  closers: (() => unknown)[],
): Cli {
  const { namespace, prefix } = settings
  const defer = (close: () => unknown): void => {
    closers.push(close)
  }
  const queue = (url: MasterAddress, timeoutMs = settings.timeoutMs): QueueView => {
    const view = new QueueView({ url, namespace, prefix, timeoutMs })
    defer(() => view.close())
    return view
  }
  const locks = async (options = inspectionOptions(settings)): Promise<LockClient | undefined> => {
    if (settings.locks === undefined) return undefined
    const opened = await openLocks(settings.locks, { namespace, ...options })
    defer(() => opened.close())
    return opened
  }
  const fleet = (timeoutMs = settings.timeoutMs): FleetProbe => {
    const opened = new FleetProbe({ masters: mastersOf(settings), namespace, timeoutMs })
    defer(() => {
      opened.close()
    })
    return opened
  }
  return {
    ...{ settings, out, defer, locks, fleet },
    signal: interruption.signal,
    maxLeaseMs: async () => settings.maxLeaseMs ?? maxLeaseOf((await surveyFleet(fleet())).masters),
    view: async () => {
      const opened = await locks()
      return opened === undefined ? fleetView(fleet()) : serviceView(opened)
    },
    queue: (timeoutMs) =>
      settings.queueRedis === undefined ? undefined : queue(settings.queueRedis, timeoutMs),
    requiredQueue: () => answering(queue(queueRedisOf(settings))),
  }
}

/** Asks before a command does: BullMQ would wait for a server that is not there. */
async function answering(view: QueueView): Promise<QueueView> {
  await view.server.command('PING').catch((error: unknown) => {
    throw new Error(`the queue's Redis ${view.server.name} does not answer: ${messageOf(error)}`)
  })
  return view
}

function inspectionOptions({ maxLeaseMs = 0, timeoutMs }: Settings): LockOptions {
  return {
    maxLeaseMs: Math.max(maxLeaseMs, timeoutMs, MAX_LEASE_MS),
    // Only ZooKeeper needs one to be asked: it is the length of the session.
    leaseMs: Math.max(timeoutMs, INSPECTION_LEASE_MS),
    ...{ requestTimeoutMs: timeoutMs, logger: silentLogger },
  }
}

const INSPECTION_LEASE_MS = 5_000
const MAX_LEASE_MS = 30_000
const FULL = 'The server is full and refuses writes. Raise its maxmemory, or remove finished jobs.'

/** Says what went wrong on standard error; `RedlockError`s already say what to do. */
function reportError(out: Output, error: unknown): ExitCode {
  const said = redacted(messageOf(error))
  const message = said.startsWith('OOM ') ? `${FULL} ${said}` : said
  const code = codeOf(error)
  out.note(`bullmq-redlock: ${message}`, { event: 'error', code, message })
  if (error instanceof UsageError) return EXIT.usage
  return code === 'QUORUM_UNREACHABLE' ? EXIT.noQuorum : EXIT.attention
}

function codeOf(error: unknown): string {
  const { code } = (error ?? {}) as { readonly code?: unknown }
  return typeof code === 'string' ? code : 'ERROR'
}
