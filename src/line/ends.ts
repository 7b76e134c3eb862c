/** Jobs that end in one turn of the event loop leave together: see `lua/finish.lua`. */
import type { JobsOptions, KeepJobs, QueueBaseOptions, WorkerOptions } from 'bullmq'
import { systemClock } from '../clock.ts'
import type { ComposedScript } from './bullmq/composed-script.ts'
import { argumentsText, jsonText, type Arguments, type ScriptSender } from './line-runner.ts'
import { TurnGroup } from './turn-group.ts'
import type { LineVisit } from './visit.ts'

/** A job that ends. */
export interface End {
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

/** The server and its clients wait for each other where more leave together. */
const TOGETHER = { items: 8, bytes: 100_000 }

export class Ends extends TurnGroup<End> {
  readonly #sender: ScriptSender
  readonly #script: ComposedScript
  readonly #keys: readonly unknown[]
  /** Our arguments, for those options of BullMQ. */
  #usual: { readonly opts: string; readonly text: string } | undefined

  /** @param keys what BullMQ's script is given as KEYS. Some are other ones for each job. */
  constructor(sender: ScriptSender, script: ComposedScript, keys: readonly unknown[]) {
    super(TOGETHER)
    this.#sender = sender
    this.#script = script
    this.#keys = keys
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
export function finishOptions(
  opts: JobsOptions,
  keepJobs: KeepJobs,
  { name, limiter, lockDuration, metrics }: QueueBaseOptions & Partial<WorkerOptions>,
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
