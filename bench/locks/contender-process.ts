/** A contender in a process of its own, from the outside. */
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import type { CallName, Calls, Request, Response } from './loads/calls.ts'

const START_LIMIT_MS = 60_000
const CALL_LIMIT_MS = 300_000

export class ContenderProcess implements AsyncDisposable {
  readonly #name: string
  readonly #child: ChildProcess
  readonly #waiting = new Map<number, (response: Response) => void>()
  #lastId = 0

  static async start(name: string): Promise<ContenderProcess> {
    const child = fork(new URL('contender-child.ts', import.meta.url), [name], {
      execArgv: ['--expose-gc', '--import', import.meta.resolve('tsx')],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    })
    const limit = AbortSignal.timeout(START_LIMIT_MS)
    await Promise.race([
      once(child, 'message', { signal: limit }),
      once(child, 'exit', { signal: limit }).then(() => {
        throw new Error(`The process of ${name} ended at its start`)
      }),
    ])
    return new ContenderProcess(name, child)
  }

  private constructor(name: string, child: ChildProcess) {
    this.#name = name
    this.#child = child
    child.on('message', (message) => {
      const response = message as Response
      this.#waiting.get(response.id)?.(response)
    })
    child.once('exit', () => {
      for (const [id, answered] of this.#waiting) {
        answered({ id, ok: false, message: 'its process ended' })
      }
    })
  }

  ask<Name extends CallName>(
    name: Name,
    argument: Calls[Name]['argument'],
  ): Promise<Calls[Name]['answer']> {
    const id = ++this.#lastId
    return new Promise((resolve, reject) => {
      const settle = (response: Response): void => {
        clearTimeout(limit)
        this.#waiting.delete(id)
        if (response.ok) resolve(response.answer)
        else reject(new Error(`${this.#name}, ${name}: ${response.message}`))
      }
      const limit = setTimeout(() => {
        settle({ id, ok: false, message: `no answer within ${CALL_LIMIT_MS} ms` })
      }, CALL_LIMIT_MS)
      this.#waiting.set(id, settle)
      this.#child.send({ id, name, argument } satisfies Request)
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const exited = once(this.#child, 'exit')
    this.#child.kill('SIGKILL')
    await exited
  }
}
