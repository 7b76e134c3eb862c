/** What a command is given, and what is closed after it. */
import { createInterface } from 'node:readline/promises'
import { silentLogger } from '../../logger.ts'
import type { LockClient } from '../../services/lock-client.ts'
import type { LockOptions } from '../../services/service-settings.ts'
import { FleetProbe } from '../operator/fleet-probe.ts'
import { fleetView, serviceView, type LockView } from '../operator/lock-view.ts'
import { openLocks } from '../operator/open-locks.ts'
import { QueueView } from '../operator/queue-view.ts'
import { storedMaxLeaseMs } from '../operator/survey.ts'
import type { MasterAddress } from '../../redlock/wire/connection-settings.ts'
import { EXIT, UsageError, aborted, watchSignals, type ExitCode } from './exit-code.ts'
import { endWithoutReader, Output } from './output.ts'
import { redacted, shownValue } from '../../redact.ts'
import { givenFlags, type CommandSpec } from './command.ts'
import { mastersOf, queueRedisOf, readSettings, type CliSettings, type Flags } from './settings.ts'
import { messageOf } from '../../message-of.ts'

interface Closable {
  close(): unknown
}

/** What a command works with. What it opens is closed after it. */
export class Cli {
  readonly settings: CliSettings
  readonly out: Output
  /** Aborts at the first SIGINT or SIGTERM. */
  readonly signal: AbortSignal
  readonly #opened: Closable[] = []

  constructor(settings: CliSettings, out: Output, signal: AbortSignal) {
    this.settings = settings
    this.out = out
    this.signal = signal
  }

  /** Closes it after the command, in reverse order. */
  closes<Opened extends Closable>(opened: Opened): Opened {
    this.#opened.push(opened)
    return opened
  }

  async close(): Promise<void> {
    for (const opened of this.#opened.reverse()) await opened.close()
  }

  /** What `--locks` names; to look only, unless there are options. */
  async locks(
    options: LockOptions = inspectionOptions(this.settings),
  ): Promise<LockClient | undefined> {
    const { locks, namespace } = this.settings
    if (locks === undefined) return undefined
    return this.closes(await openLocks(locks, { namespace, ...options }))
  }

  /** The masters. @throws UsageError when none are configured. */
  fleet(
    timeoutMs: number = this.settings.timeoutMs,
    masters: readonly MasterAddress[] = mastersOf(this.settings),
  ): FleetProbe {
    const { namespace } = this.settings
    return this.closes(new FleetProbe({ masters, namespace, timeoutMs }))
  }

  /** What `--locks` names, or else the masters. */
  async view(): Promise<LockView> {
    const opened = await this.locks()
    return opened === undefined ? fleetView(this.fleet()) : serviceView(opened)
  }

  /** As it was given, or else as the masters have it stored. */
  async maxLeaseMs(): Promise<number | undefined> {
    return this.settings.maxLeaseMs ?? storedMaxLeaseMs(this.fleet())
  }

  /** The queue's Redis; undefined when none is configured. */
  queue(timeoutMs: number = this.settings.timeoutMs): QueueView | undefined {
    const { queueRedis, prefix } = this.settings
    if (queueRedis === undefined) return undefined
    return this.closes(new QueueView(queueRedis, prefix, timeoutMs))
  }

  /**
   * The queue's Redis. Asks it first: BullMQ would wait for a server that is not there.
   * @param queue that it must have.
   * @throws UsageError when none is configured; Error when it does not answer or lacks the queue.
   */
  async requiredQueue(queue?: string): Promise<QueueView> {
    queueRedisOf(this.settings)
    const view = this.queue() as QueueView
    await view.mustHave(queue)
    return view
  }

  /**
   * Says what the command does and breaks, and asks; notes a no.
   * @param agreed `--yes` was given.
   * @throws UsageError where there is no terminal and no `--yes`.
   */
  async confirms(warning: string, question: string, agreed = false): Promise<boolean> {
    this.out.note(warning, { event: 'warning', message: warning })
    if (agreed) return true
    if (!process.stdin.isTTY || !process.stderr.isTTY) {
      throw new UsageError('Not a terminal. Re-run with --yes to confirm.')
    }
    const terminal = createInterface({ input: process.stdin, output: process.stderr })
    try {
      const answer = await terminal.question(`${question} [y/N] `, { signal: this.signal })
      if (/^y(es)?$/i.test(answer.trim())) return true
      this.out.note('nothing was changed', { event: 'unchanged' })
      return false
    } finally {
      terminal.close()
    }
  }
}

/** @param args of the command, and then its flags. Never throws. */
export async function runCommand(spec: CommandSpec, args: readonly unknown[]): Promise<ExitCode> {
  const { graceful = false, foreignCode = false } = spec
  const flags = args.at(-1) as Flags
  const out = new Output(flags['json'] === true, !graceful, givenFlags(flags))
  if (graceful) process.stdout.off('error', endWithoutReader)
  using interruption = watchSignals()
  const { signal } = interruption
  let cli: Cli | undefined
  let code: ExitCode
  try {
    cli = new Cli(readSettings(flags, process.env), out, signal)
    const ended = spec.run(cli, ...(args as never[]))
    const interrupted = aborted(signal).then(() => EXIT.interrupted)
    code = await (graceful ? ended : Promise.race([ended, interrupted]))
  } catch (error) {
    code = reportError(out, error)
  }
  await cli?.close()
  if (foreignCode) process.exit(code)
  return code
}

function inspectionOptions({ maxLeaseMs = 0, timeoutMs }: CliSettings): LockOptions {
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
export function reportError(out: Output, error: unknown): ExitCode {
  const text = messageOf(error)
  const said = redacted(error instanceof UsageError ? withoutArguments(text) : text)
  const message = said.startsWith('OOM ') ? `${FULL} ${said}` : said
  const { code: given } = (error ?? {}) as { readonly code?: unknown }
  const code = typeof given === 'string' ? given : 'ERROR'
  out.note(`bullmq-redlock: ${message}`, { event: 'error', code, message })
  if (error instanceof UsageError) return EXIT.usage
  return code === 'QUORUM_UNREACHABLE' ? EXIT.noQuorum : EXIT.attention
}

/** An error of the command line repeats what was given, which may be a mistyped address. */
function withoutArguments(text: string): string {
  const given = process.argv.slice(2).flatMap((argument) => {
    const name = /^-*/.exec(argument)?.[0].length ?? 0
    return [argument.slice(name), argument.slice(argument.indexOf('=') + 1)]
  })
  // rule: usage-error-shows-no-secret
  return given
    .filter(Boolean)
    .reduce((said, one) => said.replaceAll(one, () => shownValue(one)), text)
}
