/** Keeps worker processes running: started again after a crash, stopped together. */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'
import { EXIT } from './exit-code.ts'

export interface WorkerCommand {
  readonly worker: string
  readonly args: readonly string[]
  readonly env: NodeJS.ProcessEnv
}

/** A worker that ends with one of these would do so again. */
const FINAL: readonly number[] = [EXIT.done, EXIT.wrongUsage, EXIT.drainedWithFailures]
const MAX_CRASHES_IN_A_ROW = 10
const RESTART_MS = { first: 250, most: 30_000 }
/** A process that ran this long was well; its next crash counts as the first. */
const WELL_AFTER_MS = 60_000
const STOP_LIMIT_MS = 15_000

/** How long to wait before the next start; doubles with every crash in a row. */
export function restartDelayMs(crashesInARow: number): number {
  return Math.min(RESTART_MS.most, RESTART_MS.first * 2 ** (crashesInARow - 1))
}

export class Supervisor {
  readonly #command: WorkerCommand
  readonly #stop: AbortSignal

  /** When `stop` aborts, every process gets SIGTERM, and SIGKILL if it does not end in time. */
  constructor(command: WorkerCommand, stop: AbortSignal) {
    this.#command = command
    this.#stop = stop
  }

  /** Resolves with one exit code per process, when none is left and none is to be started again. */
  async run(processes: number): Promise<readonly number[]> {
    const numbers = Array.from({ length: processes }, (_, index) => index + 1)
    return Promise.all(numbers.map((number) => this.#keepRunning(number)))
  }

  async #keepRunning(number: number): Promise<number> {
    const stopped = (): boolean => this.#stop.aborted
    let crashes = 0
    while (!stopped()) {
      const startedAt = performance.now()
      const { code, signal } = await this.#runOne(number)
      if (stopped()) break
      if (code !== null && FINAL.includes(code)) return code
      crashes = performance.now() - startedAt > WELL_AFTER_MS ? 1 : crashes + 1
      const how = signal ?? `exit code ${code ?? 'unknown'}`
      if (crashes > MAX_CRASHES_IN_A_ROW) {
        tell(number, `crashed (${how}) ${crashes} times in a row: given up`)
        return EXIT.cannotGoOn
      }
      const delayMs = restartDelayMs(crashes)
      tell(number, `crashed (${how}): started again in ${delayMs} ms`)
      await delay(delayMs, undefined, { signal: this.#stop }).catch(() => undefined) // Stopping.
    }
    return EXIT.done
  }

  async #runOne(number: number): Promise<Exit> {
    const child = start(this.#command)
    tell(number, `is process ${child.pid ?? 'unknown'}`)
    forward(child, number)
    const exited = exit(child)
    const limit = new AbortController()
    const onStop = (): void => {
      child.kill('SIGTERM')
      delay(STOP_LIMIT_MS, undefined, { signal: limit.signal }).then(
        () => child.kill('SIGKILL'),
        () => undefined, // Ended in time.
      )
    }
    this.#stop.addEventListener('abort', onStop)
    const ended = await exited
    this.#stop.removeEventListener('abort', onStop)
    limit.abort()
    return ended
  }
}

/** Runs the command to its end; its output is this process's output. */
export async function runOnce(command: WorkerCommand): Promise<number> {
  const child = start(command)
  child.stdout?.pipe(process.stdout)
  const { code } = await exit(child)
  return code ?? EXIT.cannotGoOn
}

interface Exit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

/** In its own process group: a Ctrl-C in the terminal reaches it through us, and only once. */
function start({ worker, args, env }: WorkerCommand): ChildProcess {
  return spawn(process.execPath, ['--import', 'tsx', worker, ...args], {
    env,
    detached: true,
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  })
}

async function exit(child: ChildProcess): Promise<Exit> {
  const [code, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null]
  return { code, signal }
}

/** Line by line, so that the processes' lines do not mix, with the process's number in front. */
function forward({ stdout }: ChildProcess, number: number): void {
  if (stdout === null) return
  createInterface({ input: stdout }).on('line', (line) => {
    process.stdout.write(line.startsWith('{') ? `${line}\n` : `[${number}] ${line}\n`)
  })
}

function tell(number: number, line: string): void {
  process.stderr.write(`[${number}] ${line}\n`)
}
