/** A program in a process of its own: calls and events over IPC, from the outside and inside. */
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'

/** Every call by its name: its argument and its answer. */
export type CallsOf<Calls> = {
  readonly [Name in keyof Calls]: { readonly argument: unknown; readonly answer: unknown }
}

export type Outcome<Answer> =
  | { readonly status: 'answered'; readonly answer: Answer }
  | { readonly status: 'failed'; readonly message: string }
  /** The process is gone. */
  | { readonly status: 'ended'; readonly message: string }
  /** Nothing came within the limit. */
  | { readonly status: 'pending'; readonly message: string; readonly limitMs: number }

interface Request {
  readonly id: number
  readonly name: string
  readonly argument: unknown
}

/** An answer, or an event. The answer with id 0 says that the process is ready. */
type Message =
  { readonly id: number; readonly outcome: Outcome<unknown> } | { readonly event: unknown }

const START_LIMIT_MS = 90_000
const CALL_LIMIT_MS = 300_000
const ENDED = { status: 'ended', message: 'its process ended' } as const

export class RemoteProcess<Calls extends CallsOf<Calls>, Event = never> implements AsyncDisposable {
  readonly #name: string
  readonly #child: ChildProcess
  readonly #waiting = new Map<number, (outcome: Outcome<unknown>) => void>()
  readonly #listeners = new Set<(event: Event) => void>()
  #lastId = 0
  #isStuck = false

  /** @param child that calls {@link serve}. */
  static async start<Calls extends CallsOf<Calls>, Event = never>(
    name: string,
    child: ChildProcess,
  ): Promise<RemoteProcess<Calls, Event>> {
    const remote = new RemoteProcess<Calls, Event>(name, child)
    const { status } = await remote.#answerTo(0, START_LIMIT_MS)
    if (status === 'answered') return remote
    child.kill('SIGKILL')
    throw new Error(`The process of ${name} was not ready within ${START_LIMIT_MS} ms: ${status}`)
  }

  private constructor(name: string, child: ChildProcess) {
    this.#name = name
    this.#child = child
    child.on('error', () => undefined) // A call to a process that has just gone: its exit counts.
    child.on('message', (message) => {
      const said = message as Message
      if ('outcome' in said) this.#waiting.get(said.id)?.(said.outcome)
      else for (const listener of this.#listeners) listener(said.event as Event)
    })
    child.once('exit', () => {
      for (const answered of this.#waiting.values()) answered(ENDED)
    })
  }

  get pid(): number {
    return this.#child.pid ?? 0
  }

  /** Whether a call had no answer in time: then this process is not used again. */
  get isStuck(): boolean {
    return this.#isStuck || this.isEnded
  }

  get isEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null
  }

  /** Calls `listener` for every event until the returned function is called. */
  listen(listener: (event: Event) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  call<Name extends keyof Calls & string>(
    name: Name,
    argument: Calls[Name]['argument'],
    limitMs: number = CALL_LIMIT_MS,
  ): Promise<Outcome<Calls[Name]['answer']>> {
    if (!this.#child.connected) return Promise.resolve(ENDED)
    const id = ++this.#lastId
    this.#child.send({ id, name, argument } satisfies Request)
    return this.#answerTo(id, limitMs)
  }

  /** @throws Error when there is no answer. */
  async ask<Name extends keyof Calls & string>(
    name: Name,
    argument: Calls[Name]['argument'],
    limitMs?: number,
  ): Promise<Calls[Name]['answer']> {
    const outcome = await this.call(name, argument, limitMs)
    if (outcome.status === 'answered') return outcome.answer
    throw new Error(`${this.#name}, ${name}: ${outcome.message}`)
  }

  /** `SIGSTOP`, and `SIGCONT` to go on. */
  signal(signal: 'SIGSTOP' | 'SIGCONT'): void {
    this.#child.kill(signal)
  }

  async kill(): Promise<void> {
    if (this.isEnded) return
    const exited = once(this.#child, 'exit')
    this.#child.kill('SIGKILL')
    await exited
  }

  /** Lets it end by itself. Returns whether it did; else it is killed. */
  async leave(limitMs: number = START_LIMIT_MS): Promise<boolean> {
    if (this.isEnded) return true
    const exited = once(this.#child, 'exit', { signal: AbortSignal.timeout(limitMs) })
    this.#child.disconnect()
    const inTime = await exited.then(
      () => true,
      () => false,
    )
    await this.kill()
    return inTime
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.kill()
  }

  #answerTo(id: number, limitMs: number): Promise<Outcome<unknown>> {
    return new Promise((resolve) => {
      const settle = (outcome: Outcome<unknown>): void => {
        clearTimeout(limit)
        this.#waiting.delete(id)
        resolve(outcome)
      }
      const limit = setTimeout(() => {
        this.#isStuck = true
        settle({ status: 'pending', message: `no answer within ${limitMs} ms`, limitMs })
      }, limitMs)
      this.#waiting.set(id, settle)
    })
  }
}

export type Handlers<Calls extends CallsOf<Calls>> = {
  readonly [Name in keyof Calls]: (
    argument: Calls[Name]['argument'],
  ) => Promise<Calls[Name]['answer']> | Calls[Name]['answer']
}

/**
 * Answers calls until the parent is gone.
 * @param left what happens then.
 * @returns what tells an event.
 */
export function serve<Calls extends CallsOf<Calls>>(
  handlers: Handlers<Calls>,
  left: () => void = () => process.exit(),
): (event: unknown) => void {
  const send = (message: Message): void => {
    // The parent may let this process go while a message is on its way.
    if (process.connected) process.send?.(message, () => undefined)
  }
  const answer = async ({ name, argument }: Request): Promise<Outcome<unknown>> => {
    try {
      const handle = handlers[name as keyof Calls]
      return { status: 'answered', answer: await handle(argument) }
    } catch (error) {
      return { status: 'failed', message: messageOf(error) }
    }
  }
  process.on('SIGINT', () => undefined) // Ctrl-C is for the parent, which then ends its processes.
  process.on('disconnect', left)
  process.on('message', (request: Request) => {
    void answer(request).then((outcome) => {
      send({ id: request.id, outcome })
    })
  })
  send({ id: 0, outcome: { status: 'answered', answer: null } })
  return (event) => {
    send({ event })
  }
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message}` : String(error)
}
