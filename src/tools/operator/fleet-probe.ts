/**
 * All masters of a fleet as an operator looks at them: in whatever state they are, each by itself.
 */
import { counted } from '../../counted.ts'
import { keyspace, type Keyspace } from '../../redlock/keyspace.ts'
import { quorumOf } from '../../redlock/quorum.ts'
import { onlyReply, type Call } from '../../redlock/wire/calls.ts'
import { batchScript } from '../../redlock/wire/batch-script.ts'
import type { MasterAddress } from '../../redlock/wire/connection-settings.ts'
import { Probe } from './probe.ts'
import type { Script } from '../../lua.ts'
import { messageOf, withoutStop } from '../../message-of.ts'
import { whyUnanswered } from './words.ts'

export type ServerAnswer<Value> =
  | { readonly master: string; readonly ok: true; readonly value: Value }
  | { readonly master: string; readonly ok: false; readonly problem: string }

interface FleetProbeOptions {
  readonly masters: readonly MasterAddress[]
  readonly namespace: string
  /** How long one master may take to connect, and to answer one question. */
  readonly timeoutMs: number
}

export class FleetProbe {
  readonly namespace: string
  readonly keys: Keyspace
  readonly size: number
  readonly quorum: number
  readonly #probes: readonly Probe[]
  readonly #batch: Script

  constructor({ masters, namespace, timeoutMs }: FleetProbeOptions) {
    this.namespace = namespace
    this.#batch = batchScript({ namespace })
    this.keys = keyspace(namespace)
    this.size = masters.length
    this.quorum = quorumOf(this.size)
    this.#probes = masters.map((address) => new Probe(address, timeoutMs))
  }

  /** Asks all masters at once; the answers are in the order of the masters. */
  each<Value>(question: (probe: Probe) => Promise<Value>): Promise<readonly ServerAnswer<Value>[]> {
    return Promise.all(this.#probes.map((probe) => answerOf(probe, question)))
  }

  /** Runs one procedure of the lock that asks for no enrolment. */
  async call(probe: Probe, call: Call): Promise<unknown> {
    const answer = await probe.run(this.#batch, [], [call.entry, ''])
    return onlyReply(answer)
  }

  /** How complete these answers are, with the first problem of each master. */
  coverage(...rounds: readonly (readonly ServerAnswer<unknown>[])[]): Coverage {
    const failed = rounds
      .flat()
      .flatMap((one) => (one.ok ? [] : { master: one.master, problem: one.problem }))
    const unreachable = failed.filter(
      ({ master }, index) => failed.findIndex((one) => one.master === master) === index,
    )
    return { masters: this.size, quorum: this.quorum, unreachable }
  }

  close(): void {
    for (const probe of this.#probes) probe.close()
  }
}

export async function answerOf<Asked extends { readonly name: string }, Value>(
  probe: Asked,
  question: (probe: Asked) => Promise<Value>,
): Promise<ServerAnswer<Value>> {
  try {
    return { master: probe.name, ok: true, value: await question(probe) }
  } catch (error) {
    return { master: probe.name, ok: false, problem: withoutStop(messageOf(error)) }
  }
}

export function valuesOf<Value>(answers: readonly ServerAnswer<Value>[]): readonly Value[] {
  return answers.flatMap((answer) => (answer.ok ? [answer.value] : []))
}

export interface UnreachableMaster {
  readonly master: string
  readonly problem: string
}

export interface Coverage {
  /** The name of a lock service besides Redis, which then counts as the only master. */
  readonly service?: string
  readonly masters: number
  readonly quorum: number
  readonly unreachable: readonly UnreachableMaster[]
}

export function hasQuorum({ masters, quorum, unreachable }: Coverage): boolean {
  return masters - unreachable.length >= quorum
}

/** `only 2 of 5 masters answer`. One server is named, whatever it is. */
export function fewAnswer({ masters, unreachable }: Coverage): string {
  const [silent] = unreachable
  if (masters === 1) return `${silent?.master ?? 'it'} ${whyUnanswered(silent?.problem)}`
  return `only ${masters - unreachable.length} of ${counted(masters, 'master answers', 'masters answer')}`
}

/** `only 2 of 5 masters answer and 3 are needed`. */
export function tooFewAnswer(coverage: Coverage): string {
  const few = fewAnswer(coverage)
  return coverage.masters === 1 ? few : `${few} and ${coverage.quorum} are needed`
}
