/** A program of this repository as a child process: its lines, and how it ended. */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { join } from 'node:path'
import { nodeArgs } from '../support/programs.ts'

const ROOT = join(import.meta.dirname, '..', '..')

export interface Ended {
  readonly code: number | null
  readonly out: readonly string[]
  readonly err: readonly string[]
  /** The lines that are JSON objects with an `event`. */
  events(event: string): readonly Readonly<Record<string, unknown>>[]
}

export class Program implements AsyncDisposable {
  readonly #child: ChildProcess
  readonly #ended: Promise<unknown>
  readonly out: string[] = []
  readonly err: string[] = []
  #onLine: () => void = () => undefined

  /** In a process group of its own, as a terminal would start it. */
  constructor(path: string, args: readonly string[], env: NodeJS.ProcessEnv = {}) {
    this.#child = spawn(process.execPath, [...nodeArgs(path), ...args], {
      cwd: ROOT,
      env: { PATH: process.env['PATH'], HOME: process.env['HOME'], ...env },
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    this.#ended = once(this.#child, 'close')
    this.#collect(this.#child.stdout, this.out)
    this.#collect(this.#child.stderr, this.err)
  }

  /** The first line, also of those so far, that matches; rejects when the program ends without. */
  async line(pattern: RegExp): Promise<RegExpExecArray> {
    const ended = this.#ended.then(() => 'ended' as const)
    for (;;) {
      const next = new Promise<void>((resolve) => (this.#onLine = resolve))
      for (const line of [...this.out, ...this.err]) {
        const match = pattern.exec(line)
        if (match !== null) return match
      }
      if ((await Promise.race([next, ended])) !== 'ended') continue
      throw new Error(`No line matches ${String(pattern)}:\n${this.#everything()}`)
    }
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal)
  }

  /** As Ctrl-C does: the signal goes to every process of the group. */
  interrupt(): void {
    process.kill(-(this.#child.pid ?? 0), 'SIGINT')
  }

  /** Whether a process of the group is left. */
  get groupIsAlive(): boolean {
    try {
      return process.kill(-(this.#child.pid ?? 0), 0)
    } catch {
      return false // No such group.
    }
  }

  async end(): Promise<Ended> {
    await this.#ended
    const { out, err } = this
    return {
      ...{ code: this.#child.exitCode, out, err },
      events: (event) =>
        out
          .filter((line) => line.startsWith('{'))
          .map((line) => JSON.parse(line) as Record<string, unknown>)
          .filter((entry) => entry['event'] === event),
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.groupIsAlive) process.kill(-(this.#child.pid ?? 0), 'SIGKILL')
    await this.#ended
  }

  #collect(stream: NodeJS.ReadableStream | null, lines: string[]): void {
    if (stream === null) return
    createInterface({ input: stream }).on('line', (line) => {
      lines.push(line)
      this.#onLine()
    })
  }

  #everything(): string {
    return [...this.out, ...this.err].join('\n')
  }
}

export async function runProgram(
  path: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Promise<Ended> {
  await using program = new Program(path, args, env)
  return await program.end()
}
