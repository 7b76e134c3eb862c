/** How jobs end. Those of one turn of the event loop leave together: see `lua/finish.lua`. */
import * as bullmq from 'bullmq'
import type { Job, JobsOptions, KeepJobs, QueueBaseOptions, WorkerOptions } from 'bullmq'
import { systemClock } from '../clock.ts'
import type { ComposedScript } from './bullmq/composed-script.ts'
import { argumentsText, jsonText, TurnGroup } from './line-runner.ts'
import type { Arguments, ScriptSender } from './line-runner.ts'
import type { Replies, RepliesSettings } from './replies.ts'
import type { LineVisit, Move } from './visit.ts'

export interface EndSettings extends RepliesSettings {
  /** Jobs have results of steps, which end with them. */
  readonly keepsSteps?: boolean
}

/** A job that ends. */
interface End {
  readonly id: string
  readonly token: string
  /** Of BullMQ, as JSON. */
  readonly opts: string
  /** What is not usual with it. */
  readonly more: Arguments
  /** What it returned, or failed with. */
  readonly value: string
  readonly visit: LineVisit | undefined
  finishedOn: number
}

interface EndingBackend {
  readonly settings: EndSettings
  readonly options: QueueBaseOptions & Partial<WorkerOptions>
  readonly replies: Replies
}

type Completed = Awaited<ReturnType<bullmq.RedisQueueBackend['moveToCompleted']>>

/** The server and its clients wait for each other where more leave together. */
const TOGETHER = { items: 8, bytes: 100_000 }

export class Ends extends TurnGroup<End> {
  readonly #backend: EndingBackend
  readonly #sender: ScriptSender
  readonly #script: ComposedScript
  readonly #keys: readonly unknown[]
  /** Our arguments, for those options of BullMQ. */
  #usual: { readonly opts: string; readonly text: string } | undefined

  /** @param keys what BullMQ's script is given as KEYS. Some are other ones for each job. */
  constructor(
    backend: EndingBackend,
    sender: ScriptSender,
    script: ComposedScript,
    keys: readonly unknown[],
  ) {
    super(TOGETHER)
    this.#backend = backend
    this.#sender = sender
    this.#script = script
    this.#keys = keys
  }

  /** It leaves its lines as its visit says; without a word it just leaves them. */
  async end(
    job: Pick<Job, 'id' | 'opts'>,
    value: string | undefined,
    token: string,
    fetches: boolean,
    keepJobs: KeepJobs,
    { target, holds, lines, fields }: Arguments = {},
  ): Promise<Completed> {
    const { id = '' } = job
    const { settings, options, replies } = this.#backend
    // Asked once. BullMQ tries again after a broken connection: it is an ordinary ending then.
    const visit = settings.visits?.ending(job)
    const keeps = !fetches || undefined
    const { back, offers, share, chargeMs }: Partial<Move> = visit?.move ?? {}
    const steps = settings.keepsSteps || undefined
    // Named one by one: JSON of an object that is spread from others takes ten times as long.
    const more = { target, holds, lines, fields, steps, keeps, back, offers, share, chargeMs }
    const opts = finishOptions(job.opts, keepJobs, options)
    const end: End = { id, token, opts, more, value: value ?? 'null', visit, finishedOn: 0 }
    let next: LineVisit | undefined
    try {
      const reply = await this.add(end, end.value.length, '')
      replies.refuse(reply, id, 'moveToFinished')
      const asksNone = keeps === true || offers === true
      next = replies.heard(reply, asksNone)
      const found = bullmq.raw2NextJobData(reply as unknown[])
      // rule: reply-that-asked-nothing-says-nothing
      const result = asksNone && found.length === 0 ? undefined : found
      return { result, finishedOn: end.finishedOn }
    } finally {
      visit?.settle?.(next)
    }
  }

  protected override send(ends: readonly End[]): Promise<unknown> {
    const at = systemClock.wallNow()
    const { opts } = ends[0] as End
    if (this.#usual?.opts !== opts) {
      this.#usual = {
        opts,
        text: argumentsText(this.#sender, { opts: JSON.parse(opts) as unknown }),
      }
    }
    const args = [...this.#keys, this.#sender.absentKey, String(at)]
    for (const end of ends) {
      const { id, token, more, opts: own, value, visit } = end
      end.finishedOn = at
      args.push(id, token)
      // Without a word the queue's Redis says of which lines it is.
      if (visit?.move === undefined) args.push('', '', '')
      else {
        const { job, lines, move } = visit
        args.push(String(job.timestamp), lines || '[]', String(Math.round(move.usedMs)))
      }
      const unusual = own === opts ? more : { ...more, opts: JSON.parse(own) as unknown }
      args.push(value, jsonText(unusual))
    }
    args.push(this.#usual.text)
    const sent = this.#sender.client.runCommand(this.#script.command, args)
    for (const { visit } of ends) visit?.sent?.()
    return sent
  }
}

/**
 * The options of BullMQ's `moveToFinished`, of a job and of its worker, by their names in its text.
 * BullMQ's backend packs the same.
 */
function finishOptions(
  opts: JobsOptions,
  keepJobs: KeepJobs,
  { name, limiter, lockDuration, metrics }: EndingBackend['options'],
): string {
  const { count, age, limit } = keepJobs as { count?: number; age?: number; limit?: number }
  // BullMQ's text takes null for undefined, and Lua has a value of its own for the null of JSON.
  return JSON.stringify({
    keepJobs: { count: count ?? undefined, age: age ?? undefined, limit: limit ?? undefined },
    attempts: opts.attempts ?? undefined,
    fpof: Boolean(opts.failParentOnFailure) || undefined,
    cpof: Boolean(opts.continueParentOnFailure) || undefined,
    idof: Boolean(opts.ignoreDependencyOnFailure) || undefined,
    rdof: Boolean(opts.removeDependencyOnFailure) || undefined,
    name: name ?? undefined,
    limiter: limiter ?? undefined,
    // Redis makes a text of a number for every command.
    lockDuration: String(lockDuration),
    maxMetricsSize: metrics?.maxDataPoints ? metrics.maxDataPoints : '',
  })
}
