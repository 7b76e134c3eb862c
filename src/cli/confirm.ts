/** Asks before something is broken. */
import { createInterface } from 'node:readline/promises'
import { UsageError } from './exit-code.ts'
import type { Cli } from './cli.ts'

export interface Question {
  /** What it does and breaks. */
  readonly warning: string
  readonly question: string
  /** The flag that answers yes. @defaultValue '--yes' */
  readonly flag?: string
  /** It was given. */
  readonly agreed: boolean | undefined
}

/** Notes a no. @throws UsageError where there is no terminal and the flag was not given. */
export async function confirmed(
  { out, signal }: Cli,
  { warning, question, flag = '--yes', agreed }: Question,
): Promise<boolean> {
  out.note(warning, { event: 'warning', message: warning })
  if (agreed === true) return true
  if (!process.stdin.isTTY || !process.stderr.isTTY) {
    throw new UsageError(`Not a terminal. Re-run with ${flag} to confirm.`)
  }
  const terminal = createInterface({ input: process.stdin, output: process.stderr })
  try {
    const answer = await terminal.question(`${question} [y/N] `, { signal })
    if (/^y(es)?$/i.test(answer.trim())) return true
    out.note('nothing was changed')
    return false
  } finally {
    terminal.close()
  }
}
