/** Jobs that are added in one turn of the event loop are sent together: see `lua/add.lua`. */
import { LineFullError } from '../errors.ts'
import { jsonText, TurnGroup, type Client, type ScriptSender } from './line-runner.ts'
import type { Replacement } from './line-scripts.ts'

/** How a job that is added stands in line; but for its resources as its hash has it. */
export interface LinePlacement {
  readonly resources: readonly string[]
  /** Each undefined where the job says none. */
  readonly slots: string | undefined
  readonly rate: string | undefined
  readonly share: string | undefined
}

/** How a queue keeps the lines to which it adds. */
export interface AddSettings {
  /** The order inside a line: that of adding, or BullMQ's order of waiting jobs. */
  readonly within: 'added' | 'priority'
  /** How a job stands in line, by its data; undefined for a worker. */
  readonly placement?: (data: unknown) => LinePlacement
  /** How many jobs a line has at most; undefined for any number. */
  readonly maxLength?: number | undefined
  /** Which sleeping job of a full line is removed for a new one; undefined for none. */
  readonly drops?: 'oldest' | 'newest' | undefined
  /**
   * A job that was added this long ago is looked at, whether or not it is its turn; undefined for
   * any time.
   */
  readonly maxWaitMs?: number | undefined
}

/** A job that is added. */
interface Addition {
  readonly replaced: Replacement
  /** BullMQ's keys and arguments, and ours of the job: see `lua/add.lua`. */
  readonly args: readonly unknown[]
  readonly bytes: number
}

/** A job that is added so may start without a delay or children. */
const AT_ONCE: ReadonlySet<string> = new Set(['addStandardJob', 'addPrioritizedJob'])
/** Reply of the add script. */
const LINE_FULL = -200
const TOGETHER = { items: 16, bytes: 100_000 }

interface Queue {
  readonly queueName: string
  remove(jobId: string, removesChildren: boolean): Promise<unknown>
}

export class Additions extends TurnGroup<Addition> {
  readonly #sender: ScriptSender
  readonly #settings: AddSettings
  readonly #queue: Queue
  /** Where full lines drop jobs for new ones. */
  #lastAdd: Promise<unknown> = Promise.resolve()

  constructor(sender: ScriptSender, settings: AddSettings, queue: Queue) {
    super(TOGETHER)
    this.#sender = sender
    this.#settings = settings
    this.#queue = queue
  }

  place(client: Client, replaced: Replacement, given: unknown[]): Promise<unknown> {
    const data = String(given[replaced.keys + 1])
    const { resources, ...more } = this.#settings.placement?.(JSON.parse(data)) as LinePlacement
    const args = [...given, JSON.stringify(resources), jsonText(more)]
    const job = { replaced, args, bytes: data.length }
    // The replies of a transaction come together.
    if (client !== this.#sender.client) return this.send([job], client)
    if (this.#settings.maxLength !== undefined) return this.#addToFull(job)
    return this.add(job, job.bytes, replaced.name)
  }

  /** Of a full line, a job is dropped first, where `whenFull` says so. */
  #addToFull(job: Addition): Promise<unknown> {
    const { maxLength = 0, drops } = this.#settings
    const add = async (): Promise<unknown> => {
      let dropped = ''
      for (;;) {
        const reply = await this.add(job, job.bytes, job.replaced.name)
        if (!Array.isArray(reply) || reply[0] !== LINE_FULL) return reply
        const [, resource, id] = reply as [number, string, string]
        // rule: add-that-dropped-is-not-refused
        if (id === '' || id === dropped) {
          throw new LineFullError(this.#queue.queueName, resource, maxLength)
        }
        // Other producers may take the room that was made, and more may be there than was allowed.
        await this.#queue.remove(id, false)
        dropped = id
      }
    }
    if (drops === undefined) return add()
    // rule: room-is-made-in-the-order-of-adds
    const added = this.#lastAdd.then(add)
    this.#lastAdd = added.catch(() => undefined)
    return added
  }

  /** @param transaction to which they are added. */
  protected override send(jobs: readonly Addition[], transaction?: Client): Promise<unknown> {
    const [{ replaced, args }, ...others] = jobs as readonly [Addition, ...Addition[]]
    const { within, maxWaitMs, maxLength, drops } = this.#settings
    const all = [...args]
    for (const each of others) all.push(...each.args.slice(replaced.keys))
    const key = args[0] as string
    const isOne = transaction !== undefined
    return this.#sender.send(transaction ?? this.#sender.client, replaced, all, {
      // A flow adds jobs to several queues.
      base: key.slice(0, key.lastIndexOf(':') + 1),
      mayStart: AT_ONCE.has(replaced.name) || undefined,
      isDelayed: replaced.name === 'addDelayedJob' || undefined,
      maxWaitMs,
      ...(isOne ? { within, isOne } : { within, maxLength, drops }),
    })
  }
}
