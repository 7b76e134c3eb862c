/** What a command says about masters that do not answer, and its exit code. */
import type { Unreachable } from '../operator/fleet-probe.ts'
import type { ResourceView } from '../operator/resource-view.ts'
import type { Cli } from './cli.ts'
import { EXIT, type ExitCode } from './exit-code.ts'
import { printable } from './printable.ts'

export interface Answers {
  /** How many there are. */
  readonly masters: number
  readonly quorum: number
  readonly unreachable: readonly Unreachable[]
}

export function answersOf({ masters, quorum, unreachable }: ResourceView): Answers {
  return { masters: masters.length, quorum, unreachable }
}

/** Names the masters that do not answer; exit code 3 when fewer than a quorum do. */
export function answeredByQuorum({ out }: Pick<Cli, 'out'>, answers: Answers): ExitCode {
  for (const { master, problem } of answers.unreachable) {
    const event = { event: 'unreachable', master, problem }
    out.note(`${master} does not answer: ${printable(problem)}`, event)
  }
  return hasQuorum(answers) ? EXIT.done : EXIT.noQuorum
}

export function hasQuorum({ masters, quorum, unreachable }: Answers): boolean {
  return masters - unreachable.length >= quorum
}

/** `Only 2 of 5 masters answer and 3 are needed`. */
export function tooFewAnswer({ masters, quorum, unreachable }: Answers): string {
  return `Only ${masters - unreachable.length} of ${masters} masters answer and ${quorum} are needed`
}
