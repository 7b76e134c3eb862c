/** A worker of an episode, in this process or in one of its own. */
import { setTimeout as delay } from 'node:timers/promises'
import type { RemoteProcess } from '../support/remote-process.ts'
import { WorkerHost, type Command, type HostSetup } from './worker-host.ts'
import { machineMs, type Seen } from './seen.ts'
import type { Locks } from './servers.ts'
import type { ChildCalls, ChildEvent } from './worker-child.ts'

export type Child = RemoteProcess<ChildCalls, ChildEvent>

/** A worker's process stood still from one time to another. */
export interface Freeze {
  readonly worker: string
  readonly from: number
  readonly to: number
}

export interface Hands {
  readonly name: string
  tell(command: Command): Promise<unknown>
  /** At once, as `kill -9` does; of a process of its own. */
  kill?(): Promise<unknown>
  /** Stops its process, and lets it go on. @returns undefined where it stands still already. */
  freeze?(forMs: number): Promise<Freeze | undefined>
  /** Since when its process stands still. */
  readonly frozenAt?: number | undefined
}

export function openHere(setup: HostSetup, locks: Locks, seen: (event: Seen) => void): Hands {
  const host = new WorkerHost(setup, locks, seen)
  return { name: setup.name, tell: (command) => host.obey(command) }
}

export async function openInChild(
  child: Child,
  setup: HostSetup,
  seen: (event: Seen) => void,
  giveBack: () => void,
): Promise<Hands> {
  const { name } = setup
  let isClean = true
  let frozenAt: number | undefined
  let thawed: Promise<unknown> = Promise.resolve()
  const unlisten = child.listen((event) => {
    if ('kind' in event) seen(event)
    else {
      const message = `unhandled ${event.unhandled}`
      seen({ kind: 'error', worker: name, message, at: machineMs() })
    }
  })
  const tell = async (command: Command): Promise<unknown> => {
    const outcome = await child.call('obey', command)
    if (outcome.status === 'answered') return outcome.answer
    if (outcome.status === 'ended') return 'killed'
    throw new Error(outcome.message)
  }
  await child.ask('open', setup)
  return {
    name,
    async tell(command) {
      if (command.do === 'stepClock') isClean = false
      if (command.do !== 'close' && command.do !== 'drain') return tell(command)
      const answer = await tell(command)
      await thawed
      unlisten()
      if (isClean) giveBack()
      else await child.kill()
      isClean = false
      return answer
    },
    kill() {
      isClean = false
      return child.kill()
    },
    get frozenAt() {
      return frozenAt
    },
    async freeze(forMs) {
      if (frozenAt !== undefined) return undefined
      const from = machineMs()
      frozenAt = from
      child.signal('SIGSTOP')
      thawed = delay(forMs).then(() => {
        child.signal('SIGCONT')
        frozenAt = undefined
      })
      await thawed
      return { worker: name, from, to: machineMs() }
    },
  }
}
