/** A worker of an episode, in this process or in one of its own. */
import type { ChildProcess } from 'node:child_process'
import type { Redlock } from '../../src/index.ts'
import type { Command } from './worker-child.ts'
import { cutConnection, WorkerHost, type HostSetup } from './worker-host.ts'
import { machineMs, type Seen } from './seen.ts'

export interface Hands {
  readonly name: string
  readonly isChild: boolean
  close(force: boolean): Promise<unknown>
  drain(timeoutMs: number): Promise<unknown>
  pause(): Promise<unknown>
  resume(): Promise<unknown>
  cut(): Promise<unknown>
  cancel(id: string): Promise<unknown>
  cancelAll(): Promise<unknown>
  setConcurrency(most: number): Promise<unknown>
  /** Where a job stands, and why. */
  ask(id: string, resource: string): Promise<unknown>
  stepClock(aheadMs: number): Promise<unknown>
  /** At once, as `kill -9` does. */
  kill(): Promise<unknown>
}

export function openHere(setup: HostSetup, redlock: Redlock, seen: (event: Seen) => void): Hands {
  const host = new WorkerHost(setup, redlock, seen)
  const { worker } = host
  return {
    name: setup.name,
    isChild: false,
    close: (force) => host.close(force),
    drain: (timeoutMs) => host.drain(timeoutMs),
    pause: () => worker.pause(true),
    resume: () => worker.resume(),
    cut: () => cutConnection(worker),
    cancel: (id) => Promise.resolve(worker.cancelJob(id)),
    cancelAll: () => {
      worker.cancelAllJobs()
      return Promise.resolve()
    },
    setConcurrency: (most) => {
      host.setConcurrency(most)
      return Promise.resolve()
    },
    ask: (id, resource) => host.ask(id, resource),
    stepClock: () => Promise.resolve(),
    kill: () => worker.close(true),
  }
}

interface FromChild {
  readonly id?: number
  readonly answer?: unknown
  readonly error?: string
  readonly event?: Seen
  readonly unhandled?: string
}

export async function openInChild(
  child: ChildProcess,
  setup: HostSetup,
  seen: (event: Seen) => void,
  giveBack: (child: ChildProcess) => void,
): Promise<Hands> {
  let last = 0
  let isClean = true
  const waiting = new Map<
    number,
    { resolve: (value: unknown) => void; reject: (error: Error) => void }
  >()
  const hear = ({ id, answer, error, event, unhandled }: FromChild): void => {
    if (event !== undefined) seen(event)
    if (unhandled !== undefined) {
      seen({
        kind: 'error',
        worker: setup.name,
        message: `unhandled ${unhandled}`,
        at: machineMs(),
      })
    }
    const asked = id === undefined ? undefined : waiting.get(id)
    if (id === undefined || asked === undefined) return
    waiting.delete(id)
    if (error === undefined) asked.resolve(answer)
    else asked.reject(new Error(error))
  }
  child.on('message', hear)
  const gone = (): void => {
    for (const { resolve } of waiting.values()) resolve('killed')
    waiting.clear()
  }
  child.once('exit', gone)
  const ask = (command: Command): Promise<unknown> =>
    new Promise((resolve, reject) => {
      if (!child.connected) {
        resolve('killed')
        return
      }
      last += 1
      waiting.set(last, { resolve, reject })
      child.send({ id: last, command })
    })
  const leave = async (command: Command): Promise<unknown> => {
    const answer = await ask(command)
    child.off('message', hear)
    child.off('exit', gone)
    if (isClean && child.connected) giveBack(child)
    else child.kill('SIGKILL')
    isClean = false
    return answer
  }
  await ask({ do: 'open', setup })
  return {
    name: setup.name,
    isChild: true,
    close: (force) => leave({ do: 'close', force }),
    drain: (timeoutMs) => leave({ do: 'drain', timeoutMs }),
    pause: () => ask({ do: 'pause' }),
    resume: () => ask({ do: 'resume' }),
    cut: () => ask({ do: 'cut' }),
    cancel: (id) => ask({ do: 'cancel', id }),
    cancelAll: () => ask({ do: 'cancelAll' }),
    setConcurrency: (most) => ask({ do: 'setConcurrency', most }),
    ask: (id, resource) => ask({ do: 'ask', id, resource }),
    stepClock: (aheadMs) => {
      isClean = false
      return ask({ do: 'stepClock', aheadMs })
    },
    kill: () =>
      new Promise((resolve) => {
        isClean = false
        if (child.exitCode !== null || child.signalCode !== null) resolve('killed')
        else child.once('exit', resolve)
        child.kill('SIGKILL')
      }),
  }
}
