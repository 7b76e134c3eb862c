/**
 * A session of a database's own command-line client: statements with values in, counts of rows and
 * rows out.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import type { Statement } from '../../src/fenced/index.ts'

/** How a client is told a statement with its values. */
export interface Dialect {
  script(statement: Statement): string
  /** How many rows a statement matched, as its output says. */
  matched(output: string): number
}

const DONE = 'statement-is-done'
const FAILED = /^(ERROR|Error|\w+ error)\b/m

export const MYSQL: Dialect = {
  script: ({ text, values }) => {
    const names = values.map((_, index) => `@v${index}`)
    const set = values.map((value, index) => `@v${index} = ${literal(value)}`).join(', ')
    return [
      `PREPARE statement FROM ${literal(text)};`,
      ...(set === '' ? [] : [`SET ${set};`]),
      `EXECUTE statement${names.length === 0 ? '' : ` USING ${names.join(', ')}`};`,
    ].join('\n')
  },
  // An update counts the rows that it matched, an insert those that it made.
  matched: (output) => {
    const [last] = [...output.matchAll(/Rows matched: (\d+)|Query OK, (\d+) row/g)].slice(-1)
    return Number(last?.[1] ?? last?.[2] ?? 0)
  },
}

export const SQLITE: Dialect = {
  script: ({ text, values }) =>
    [
      '.parameter clear',
      ...values.map((value, index) => `.parameter set ?${index + 1} "${literal(value)}"`),
      `${text};`,
      "SELECT 'matched', changes();",
    ].join('\n'),
  matched: (output) => Number(/matched\|(\d+)/.exec(output)?.[1] ?? 0),
}

export class SqlSession {
  readonly #child: ChildProcess
  readonly #dialect: Dialect
  #last: Promise<unknown> = Promise.resolve()

  constructor(client: readonly string[], dialect: Dialect) {
    this.#dialect = dialect
    // One stream for both, so that an error comes before what follows it.
    const command = ['-c', 'exec "$@" 2>&1', 'sh', ...client]
    this.#child = spawn('sh', command, { stdio: ['pipe', 'pipe', 'inherit'] })
  }

  /** What the client says to a script. @throws Error for what the database refuses. */
  run(script: string): Promise<string> {
    const running = this.#last.then(() => this.#run(script))
    this.#last = running.catch(() => undefined)
    return running
  }

  async execute(statement: Statement): Promise<number> {
    return this.#dialect.matched(await this.run(this.#dialect.script(statement)))
  }

  async close(): Promise<void> {
    const closed = once(this.#child, 'close')
    this.#child.stdin?.end()
    await closed
  }

  #run(script: string): Promise<string> {
    const { stdin, stdout } = this.#child
    return new Promise((resolve, reject) => {
      let said = ''
      const onData = (part: Buffer): void => {
        said += part.toString()
        if (!said.includes(`>${DONE}<`)) return
        stdout?.off('data', onData)
        if (FAILED.test(said)) reject(new Error(said))
        else resolve(said)
      }
      stdout?.on('data', onData)
      // Put together by the database, so that an echo of the script does not end it.
      stdin?.write(
        `${script}\nSELECT ${this.#dialect === MYSQL ? `CONCAT('>', '${DONE}', '<')` : `'>' || '${DONE}' || '<'`};\n`,
      )
    })
  }
}

function literal(value: unknown): string {
  return typeof value === 'number' ? String(value) : `'${String(value).replaceAll("'", "''")}'`
}
