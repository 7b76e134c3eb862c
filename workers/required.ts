/** A variable of the environment that a program cannot do without. */

/** Ends the process with exit code 2 where it is not set. */
export function required(name: string, what: string): string {
  const value = process.env[name]
  if (value) return value
  process.stderr.write(`Set ${name} to ${what}\n`)
  process.exit(2)
}
