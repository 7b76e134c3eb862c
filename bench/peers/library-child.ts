/** The process in which one library runs: loads its adapter and does what it is told over IPC. */
import { monotonicMs } from '../../test/faults/monotonic.ts'
import { item } from '../../test/support/proxied-masters.ts'
import { messageOf, serve } from '../../test/support/remote-process.ts'
import { adapters, type Client, type Held, type Setup } from './adapters.ts'
import { OURS } from './libraries.ts'
import { flow, hold, letGo, turns } from './loads.ts'

/** Work under a lease. */
interface Work {
  /** When the library said that the lease is lost. */
  lostAt?: number
  /** What `using` came to. */
  settled?: string
  /** What came of taking the resource again inside the work. */
  inner?: 'granted' | 'refused'
}

interface Of {
  /** The number of the client. */
  readonly client: number
}

type Resource = Of & { readonly resource: string; readonly ttlMs: number }
type Load<Run extends (client: Client, load: never) => unknown> = Of & Parameters<Run>[1]

const name = process.argv[2] ?? ''
const clients: Client[] = []
const helds: Held[] = []
const works: { readonly work: Work; finish: (error: string | undefined) => void }[] = []

if (name !== OURS) {
  // A library that lets a rejection escape is judged by what it tells its caller.
  process.on('unhandledRejection', () => undefined)
  process.on('uncaughtException', () => undefined)
}

const handlers = {
  async connect(setup: Setup) {
    const client = await adapters[name]?.(setup)
    if (client === undefined) throw new Error(`There is no adapter for ${name}`)
    return { client: clients.push(client) - 1, keyPrefix: client.keyPrefix }
  },
  async close({ client }: Of) {
    await item(clients, client).close()
  },
  async acquire({ client: index, resource, ttlMs }: Resource) {
    const client = item(clients, index)
    const startedAt = monotonicMs()
    try {
      const held = await client.acquire(resource, ttlMs)
      const tookMs = monotonicMs() - startedAt
      const { fencingToken } = held
      const remainingMs = held.remainingMs()
      const index = helds.push(held) - 1
      return { status: 'held' as const, held: index, tookMs, remainingMs, fencingToken }
    } catch (error) {
      const tookMs = monotonicMs() - startedAt
      const reason = await client.reason(error)
      return { status: 'refused' as const, tookMs, reason, message: messageOf(error) }
    }
  },
  isHeld: (held: number) => item(helds, held).isHeld(),
  async release(held: number) {
    await item(helds, held).release()
  },
  startUsing,
  work: (index: number) => item(works, index).work,
  finish: ({ work, error }: { readonly work: number; readonly error?: string | undefined }) => {
    item(works, work).finish(error)
  },
  flow: (load: Load<typeof flow>) => flow(item(clients, load.client), load),
  turns: (load: Load<typeof turns>) => turns(item(clients, load.client), load),
  hold: (load: Load<typeof hold>) => hold(item(clients, load.client), load),
  letGo,
}

export type Calls = {
  [Name in keyof typeof handlers]: {
    readonly argument: Parameters<(typeof handlers)[Name]>[0]
    readonly answer: Awaited<ReturnType<(typeof handlers)[Name]>>
  }
}
serve<Calls>(handlers)

/** Answers when the work has begun; it goes on until it is finished. */
function startUsing(asked: Resource & { readonly nested: boolean }): Promise<number> {
  const { resource, ttlMs, nested } = asked
  const client = item(clients, asked.client)
  const work: Work = {}
  const started = { work, finish: (): void => undefined } as (typeof works)[number]
  const index = works.push(started) - 1
  return new Promise((resolve, reject) => {
    const done = client.using(resource, ttlMs, async (onLost) => {
      onLost(() => {
        work.lostAt ??= monotonicMs()
      })
      if (nested) work.inner = await nest(client, resource, ttlMs)
      resolve(index)
      return new Promise<string>((complete, fail) => {
        started.finish = (error) => {
          if (error === undefined) complete('done')
          else fail(new Error(error))
        }
      })
    })
    done.then(
      (value) => {
        work.settled = value
      },
      (error: unknown) => {
        work.settled = messageOf(error)
        reject(error instanceof Error ? error : new Error(messageOf(error)))
      },
    )
  })
}

async function nest(
  client: Client,
  resource: string,
  ttlMs: number,
): Promise<Work['inner'] & string> {
  let inner: Held
  try {
    inner = await client.acquire(resource, ttlMs)
  } catch {
    return 'refused'
  }
  await inner.release()
  return 'granted'
}
