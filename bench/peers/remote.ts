/** A library in a process of its own: calls over IPC, from the outside and from the inside. */
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'

/** Every call by its name: its argument and its answer. */
type CallsOf<Calls> = {
  readonly [Name in keyof Calls]: { readonly argument: unknown; readonly answer: unknown }
}

export type Outcome<Answer> =
  | { readonly status: 'answered'; readonly answer: Answer }
  | { readonly status: 'failed'; readonly message: string }
  /** Nothing came within the limit. */
  | { readonly status: 'pending'; readonly limitMs: number }

interface Request {
  readonly id: number
  readonly name: string
  readonly argument: unknown
}

/** The one with id 0 says that the process is ready. */
interface Response {
  readonly id: number
  readonly outcome: Exclude<Outcome<unknown>, { readonly status: 'pending' }>
}

const START_LIMIT_MS = 60_000
const CALL_LIMIT_MS = 300_000

export class RemoteProcess<Calls extends CallsOf<Calls>> implements AsyncDisposable {
  readonly #library: string
  readonly #child: ChildProcess
  readonly #waiting = new Map<number, (outcome: Response['outcome']) => void>()
  #lastId = 0
  #stuck = false

  /** `file` calls {@link serve} and is given the name of its library. */
  static async start<Calls extends CallsOf<Calls>>(
    file: URL,
    library: string,
  ): Promise<RemoteProcess<Calls>> {
    const child = fork(file, [library], {
      execArgv: ['--expose-gc', '--import', import.meta.resolve('tsx')],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    })
    const limit = AbortSignal.timeout(START_LIMIT_MS)
    await Promise.race([
      once(child, 'message', { signal: limit }),
      once(child, 'exit', { signal: limit }).then(() => {
        throw new Error(`The process of ${library} ended at its start`)
      }),
    ])
    return new RemoteProcess(library, child)
  }

  private constructor(library: string, child: ChildProcess) {
    this.#library = library
    this.#child = child
    child.on('message', (message) => {
      const { id, outcome } = message as Response
      this.#waiting.get(id)?.(outcome)
    })
    child.once('exit', () => {
      for (const answered of this.#waiting.values()) {
        answered({ status: 'failed', message: 'its process ended' })
      }
    })
  }

  /** Whether a call had no answer in time: then this process is not used again. */
  get stuck(): boolean {
    return this.#stuck || this.#ended
  }

  get #ended(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null
  }

  call<Name extends keyof Calls & string>(
    name: Name,
    argument: Calls[Name]['argument'],
    limitMs: number,
  ): Promise<Outcome<Calls[Name]['answer']>> {
    const id = ++this.#lastId
    return new Promise((resolve) => {
      const settle = (outcome: Outcome<unknown>): void => {
        clearTimeout(limit)
        this.#waiting.delete(id)
        resolve(outcome)
      }
      const limit = setTimeout(() => {
        this.#stuck = true
        settle({ status: 'pending', limitMs })
      }, limitMs)
      this.#waiting.set(id, settle)
      if (this.#child.connected) this.#child.send({ id, name, argument } satisfies Request)
    })
  }

  /** @throws Error when there is no answer. */
  async ask<Name extends keyof Calls & string>(
    name: Name,
    argument: Calls[Name]['argument'],
    limitMs: number = CALL_LIMIT_MS,
  ): Promise<Calls[Name]['answer']> {
    const outcome = await this.call(name, argument, limitMs)
    if (outcome.status === 'answered') return outcome.answer
    const what = outcome.status === 'failed' ? outcome.message : `no answer within ${limitMs} ms`
    throw new Error(`${this.#library}, ${name}: ${what}`)
  }

  /** `SIGSTOP`, and `SIGCONT` to go on. */
  signal(signal: 'SIGSTOP' | 'SIGCONT'): void {
    this.#child.kill(signal)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#ended) return
    const exited = once(this.#child, 'exit')
    this.#child.kill('SIGKILL')
    await exited
  }
}

export type Handlers<Calls extends CallsOf<Calls>> = {
  readonly [Name in keyof Calls]: (
    argument: Calls[Name]['argument'],
  ) => Promise<Calls[Name]['answer']> | Calls[Name]['answer']
}

/** Answers calls until the parent is gone. */
export function serve<Calls extends CallsOf<Calls>>(handlers: Handlers<Calls>): void {
  const send = (response: Response): void => {
    process.send?.(response)
  }
  const answer = async ({ name, argument }: Request): Promise<Response['outcome']> => {
    try {
      const handle = handlers[name as keyof Calls]
      return { status: 'answered', answer: await handle(argument) }
    } catch (error) {
      return { status: 'failed', message: messageOf(error) }
    }
  }
  process.on('SIGINT', () => undefined) // Ctrl-C is for the parent, which then ends its processes.
  process.on('disconnect', () => process.exit())
  process.on('message', (request: Request) => {
    void answer(request).then((outcome) => {
      send({ id: request.id, outcome })
    })
  })
  send({ id: 0, outcome: { status: 'answered', answer: null } })
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message}` : String(error)
}
