/** The members' processes, and the one history that they write together. */
import { readFileSync } from 'node:fs'
import type { History, MemberEvent } from './history.ts'
import type { MemberCalls, Orders } from './orders.ts'
import { forkProgram } from '../support/programs.ts'
import { RemoteProcess } from '../support/remote-process.ts'

/** A busy machine starts a process slowly. */
const BEGIN_LIMIT_MS = 90_000
/** A member may first have to let a lease run out. */
const END_LIMIT_MS = 30_000
const LEAVE_LIMIT_MS = 5_000

/**
 * What all members of a run share; only the first one pauses, so that somebody is there to take
 * over.
 */
export type SharedOrders = Omit<Orders, 'name' | 'seed'>

interface Member {
  readonly remote: RemoteProcess<MemberCalls, readonly MemberEvent[]>
  run: { readonly orders: Orders; readonly history: History } | undefined
  lives: number
}

export class ClientProcesses {
  readonly #members: Member[] = []
  readonly #env: NodeJS.ProcessEnv

  static async start(size: number, env: NodeJS.ProcessEnv = {}): Promise<ClientProcesses> {
    const clients = new ClientProcesses(env)
    const starting = Array.from({ length: size }, () => clients.#start())
    clients.#members.push(...(await Promise.all(starting)))
    return clients
  }

  private constructor(env: NodeJS.ProcessEnv) {
    this.#env = env
  }

  get pids(): readonly number[] {
    return this.#members.map(({ remote }) => remote.pid)
  }

  async begin(shared: SharedOrders, seed: number, history: History): Promise<void> {
    await Promise.all(
      this.#members.map((member, index) => {
        const { pauses, ...rest } = shared
        const own = index === 0 && pauses !== undefined ? { ...rest, pauses } : rest
        const orders = { ...own, name: `m${index + 1}`, seed: seed * 100 + index }
        return begin(member, orders, history)
      }),
    )
  }

  /** Returns what did not end in time, in words. */
  async end(): Promise<readonly string[]> {
    const late = this.#members.map(async (member) => {
      const name = member.run?.orders.name ?? 'a member'
      const { status } = await member.remote.call('end', null, END_LIMIT_MS)
      member.run = undefined
      return status === 'answered' ? [] : [`${name} did not end within ${END_LIMIT_MS} ms`]
    })
    return (await Promise.all(late)).flat()
  }

  stop(index: number): void {
    this.#member(index).remote.signal('SIGSTOP')
  }

  resume(index: number): void {
    this.#member(index).remote.signal('SIGCONT')
  }

  isStopped(index: number): boolean {
    return isStopped(this.#member(index).remote.pid)
  }

  /** Kills a member and puts a new one in its place, which goes on with new leases. */
  async replace(index: number): Promise<void> {
    const { remote, run, lives } = this.#member(index)
    await remote.kill()
    const member = await this.#start()
    this.#members[index] = member
    if (run === undefined) return
    // Its leases have other names, and its choices another seed.
    member.lives = lives + 1
    const name = `${run.orders.name.replace(/\.\d+$/, '')}.${member.lives}`
    await begin(member, { ...run.orders, name, seed: run.orders.seed + 7 }, run.history)
  }

  /** Every process must end by itself: what stays alive has left a timer or a socket behind. */
  async leave(): Promise<readonly string[]> {
    const left = this.#members.splice(0).map(async ({ remote }) => {
      if (await remote.leave(LEAVE_LIMIT_MS)) return []
      return [`process ${remote.pid} stayed alive ${LEAVE_LIMIT_MS} ms after everything was closed`]
    })
    return (await Promise.all(left)).flat()
  }

  async #start(): Promise<Member> {
    const child = forkProgram(new URL('member-child.ts', import.meta.url), [], {
      env: { ...process.env, ...this.#env },
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    })
    const remote: Member['remote'] = await RemoteProcess.start('a member', child)
    const member: Member = { remote, run: undefined, lives: 1 }
    remote.listen((events) => {
      for (const event of events) member.run?.history.add(event)
    })
    return member
  }

  #member(index: number): Member {
    const member = this.#members[index]
    if (member === undefined) throw new Error(`There is no member ${index}`)
    return member
  }
}

async function begin(member: Member, orders: Orders, history: History): Promise<void> {
  member.run = { orders, history }
  await member.remote.call('begin', orders, BEGIN_LIMIT_MS)
}

/** Whether the system has stopped the process, by whose signal ever. */
export function isStopped(pid: number): boolean {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  return stat.slice(stat.lastIndexOf(')') + 2).startsWith('T')
}
