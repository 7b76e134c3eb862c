/** What a command says about masters that do not answer, and its exit code. */
import { counted } from '../../counted.ts'
import { hasQuorum, type Coverage } from '../operator/fleet-probe.ts'
import type { ResourceView } from '../operator/resource-view.ts'
import type { Cli } from './cli.ts'
import { EXIT, type ExitCode } from './exit-code.ts'
import { printable } from './printable.ts'

export function coverageOf({ masters, quorum, unreachable }: ResourceView): Coverage {
  return { masters: masters.length, quorum, unreachable }
}

/** Names the masters that do not answer. Exit code 3 when fewer than a quorum do, else `code`. */
export function answeredByQuorum(
  { out }: Cli,
  coverage: Coverage,
  code: ExitCode = EXIT.done,
): ExitCode {
  for (const { master, problem } of coverage.unreachable) {
    const event = { event: 'unreachable', master, problem }
    out.note(`${master} does not answer: ${printable(problem)}`, event)
  }
  return hasQuorum(coverage) ? code : EXIT.noQuorum
}

/** `Only 2 of 5 masters answer and 3 are needed`. */
export function tooFewAnswer({ masters, quorum, unreachable }: Coverage): string {
  const all = counted(masters, 'master answers', 'masters answer')
  return `Only ${masters - unreachable.length} of ${all} and ${counted(quorum, 'is', 'are')} needed`
}
