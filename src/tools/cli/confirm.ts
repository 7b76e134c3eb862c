/** Asks before something is broken. */
import { createInterface } from 'node:readline/promises'
import { UsageError } from './exit-code.ts'
import type { Cli } from './cli.ts'

/**
 * Says what the command does and breaks, and asks; notes a no.
 * @param agreed `--yes` was given.
 * @throws UsageError where there is no terminal and no `--yes`.
 */
export async function confirmed(
  { out, signal }: Cli,
  warning: string,
  question: string,
  agreed = false,
): Promise<boolean> {
  out.note(warning, { event: 'warning', message: warning })
  if (agreed) return true
  if (!process.stdin.isTTY || !process.stderr.isTTY) {
    throw new UsageError('Not a terminal. Re-run with --yes to confirm.')
  }
  const terminal = createInterface({ input: process.stdin, output: process.stderr })
  try {
    const answer = await terminal.question(`${question} [y/N] `, { signal })
    if (/^y(es)?$/i.test(answer.trim())) return true
    out.note('nothing was changed', { event: 'unchanged' })
    return false
  } finally {
    terminal.close()
  }
}
