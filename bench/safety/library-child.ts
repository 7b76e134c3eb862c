/** The process in which one library runs: loads its adapter and does what it is told over IPC. */
import { monotonicMs } from '../../test/faults/monotonic.ts'
import { messageOf, serve } from '../../test/support/remote-process.ts'
import type { Client, Held } from '../peers/adapter.ts'
import { loadAdapter } from '../peers/libraries.ts'
import type { AcquireResult, Calls, Lock, WorkState } from './calls.ts'

interface Work {
  state: WorkState
  finish: (error: string | undefined) => void
}

const adapter = await loadAdapter(process.argv[2] ?? '')
const clients: Client[] = []
const helds: Held[] = []
const works: Work[] = []

// A library that lets a rejection escape is judged by what it tells its caller, not by dying here.
process.on('unhandledRejection', () => undefined)
process.on('uncaughtException', () => undefined)

serve<Calls>({
  versions: () => adapter.versions,
  async connect(setup) {
    clients.push(await adapter.connect(setup))
    return { client: clients.length - 1, keyPrefix: adapter.keyPrefix(setup) }
  },
  acquire,
  look(index) {
    const held = item(helds, index)
    return { isHeld: held.isHeld(), remainingMs: held.remainingMs() }
  },
  async release(index) {
    await item(helds, index).release()
    return null
  },
  startUsing,
  work: (index) => item(works, index).state,
  finish({ work, error }) {
    item(works, work).finish(error)
    return null
  },
  async close(index) {
    await item(clients, index).close()
    return null
  },
})

async function acquire({ client: index, resource, ttlMs }: Lock): Promise<AcquireResult> {
  const client = item(clients, index)
  const startedAt = monotonicMs()
  const tookMs = (): number => monotonicMs() - startedAt
  try {
    const held = await client.acquire(resource, ttlMs)
    const { fencingToken } = held
    helds.push(held)
    return {
      status: 'held',
      held: helds.length - 1,
      tookMs: tookMs(),
      remainingMs: held.remainingMs(),
      fencingToken,
    }
  } catch (error) {
    const settledMs = tookMs()
    const reason = await client.reason(error)
    return { status: 'refused', tookMs: settledMs, reason, message: messageOf(error) }
  }
}

function startUsing({ client, resource, ttlMs, nested = false }: Lock): Promise<number> {
  const work: Work = {
    state: { lostAt: undefined, settled: undefined },
    finish: () => undefined,
  }
  const index = works.push(work) - 1
  return new Promise((resolve, reject) => {
    const own = item(clients, client)
    const done = own.using(resource, ttlMs, async (onLost) => {
      onLost(() => {
        work.state = { ...work.state, lostAt: work.state.lostAt ?? monotonicMs() }
      })
      if (nested) work.state = { ...work.state, inner: await nest(own, resource, ttlMs) }
      resolve(index)
      return new Promise<string>((complete, fail) => {
        work.finish = (error) => {
          if (error === undefined) complete('done')
          else fail(new Error(error))
        }
      })
    })
    const settle = (ok: boolean, value: string): void => {
      work.state = { ...work.state, settled: { ok, value, at: monotonicMs() } }
    }
    done.then(
      (value) => {
        settle(true, value)
      },
      (error: unknown) => {
        settle(false, messageOf(error))
        reject(error instanceof Error ? error : new Error(messageOf(error)))
      },
    )
  })
}

async function nest(
  client: Client,
  resource: string,
  ttlMs: number,
): Promise<'granted' | 'refused'> {
  let inner: Held
  try {
    inner = await client.acquire(resource, ttlMs)
  } catch {
    return 'refused'
  }
  await inner.release()
  return 'granted'
}

function item<T>(list: readonly T[], index: number): T {
  const value = list[index]
  if (value === undefined) throw new Error(`There is no item ${index}`)
  return value
}
