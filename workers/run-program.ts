import { messageOf } from '../src/message-of.ts'
import { redacted } from '../src/redact.ts'

/** Ends the process with the code that it returns. What it throws is one line, and code 1. */
export async function runProgram(main: () => Promise<number>): Promise<never> {
  const code = await main().catch((error: unknown) => {
    process.stderr.write(`${redacted(messageOf(error))}\n`)
    return 1
  })
  process.exit(code)
}

/** The value of a variable. Ends the process with exit code 2 where it is not set. */
export function required(name: string, what: string): string {
  const value = process.env[name]
  if (value) return value
  process.stderr.write(`Set ${name} to ${what}\n`)
  process.exit(2)
}
