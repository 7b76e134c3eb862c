/**
 * A library in a process of its own, from the outside: every call has a limit, and it can be ended
 * whatever it does.
 */
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import type { Calls, Operation, Request, Response } from './calls.ts'

export type Outcome<Answer> =
  | { readonly status: 'answered'; readonly answer: Answer }
  | { readonly status: 'failed'; readonly message: string }
  /** Nothing came within the limit. */
  | { readonly status: 'pending'; readonly limitMs: number }

const START_LIMIT_MS = 20_000

export class LibraryProcess {
  readonly #child: ChildProcess
  readonly #waiting = new Map<number, (response: Response) => void>()
  #lastId = 0
  #stuck = false

  static async start(library: string): Promise<LibraryProcess> {
    const child = fork(new URL('library-child.ts', import.meta.url), [library], {
      execArgv: ['--import', import.meta.resolve('tsx')],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    })
    const started = new LibraryProcess(child)
    const limit = AbortSignal.timeout(START_LIMIT_MS)
    await Promise.race([
      once(child, 'message', { signal: limit }),
      once(child, 'exit', { signal: limit }).then(() => {
        throw new Error(`The process of ${library} ended at its start`)
      }),
    ])
    return started
  }

  private constructor(child: ChildProcess) {
    this.#child = child
    child.on('message', (message) => {
      const response = message as Response
      this.#waiting.get(response.id)?.(response)
      this.#waiting.delete(response.id)
    })
  }

  /**
   * Whether something was asked that has not been answered: then this process is not used again.
   */
  get stuck(): boolean {
    return this.#stuck || this.#child.exitCode !== null || this.#child.signalCode !== null
  }

  call<Name extends Operation>(
    operation: Name,
    argument: Calls[Name]['argument'],
    limitMs: number,
  ): Promise<Outcome<Calls[Name]['answer']>> {
    const id = ++this.#lastId
    return new Promise((resolve) => {
      const limit = setTimeout(() => {
        this.#stuck = true
        this.#waiting.delete(id)
        resolve({ status: 'pending', limitMs })
      }, limitMs)
      this.#waiting.set(id, (response) => {
        clearTimeout(limit)
        resolve(
          response.ok
            ? { status: 'answered', answer: response.answer as Calls[Name]['answer'] }
            : { status: 'failed', message: response.message },
        )
      })
      if (this.#child.connected) this.#child.send({ id, operation, argument } satisfies Request)
    })
  }

  /** `SIGSTOP`, and `SIGCONT` to go on. */
  signal(signal: 'SIGSTOP' | 'SIGCONT'): void {
    this.#child.kill(signal)
  }

  async end(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const exited = once(this.#child, 'exit')
    this.#child.kill('SIGKILL')
    await exited
  }
}
