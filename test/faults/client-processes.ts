/** The members' processes, and the one history that they write together. */
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import type { History } from './history.ts'
import type { Command, Orders, Report } from './orders.ts'
import { forkProgram } from '../support/programs.ts'

/** A busy machine starts a process slowly. */
const START_LIMIT_MS = 90_000
/** A member may first have to let a lease run out. */
const END_LIMIT_MS = 30_000
const LEAVE_LIMIT_MS = 5_000

/**
 * What all members of a run share; only the first one pauses, so that somebody is there to take
 * over.
 */
export type SharedOrders = Omit<Orders, 'name' | 'seed'>

export class ClientProcesses {
  readonly #members: MemberProcess[] = []
  readonly #env: NodeJS.ProcessEnv

  static async start(size: number, env: NodeJS.ProcessEnv = {}): Promise<ClientProcesses> {
    const clients = new ClientProcesses(env)
    await Promise.all(Array.from({ length: size }, () => clients.#startMember()))
    return clients
  }

  private constructor(env: NodeJS.ProcessEnv) {
    this.#env = env
  }

  get pids(): readonly number[] {
    return this.#members.map(({ pid }) => pid)
  }

  async begin(shared: SharedOrders, seed: number, history: History): Promise<void> {
    await Promise.all(
      this.#members.map((member, index) => {
        const { pauses, ...rest } = shared
        const own = index === 0 && pauses !== undefined ? { ...rest, pauses } : rest
        const orders = { ...own, name: `m${index + 1}`, seed: seed * 100 + index }
        return member.begin(orders, history)
      }),
    )
  }

  /** Returns what did not end in time, in words. */
  async end(): Promise<readonly string[]> {
    return (await Promise.all(this.#members.map((member) => member.end()))).flat()
  }

  stop(index: number): void {
    this.#member(index).signal('SIGSTOP')
  }

  resume(index: number): void {
    this.#member(index).signal('SIGCONT')
  }

  /** Whether the system has stopped the process, by whose signal ever. */
  isStopped(index: number): boolean {
    return this.#member(index).isStopped
  }

  /** Kills a member and puts a new one in its place, which goes on with new leases. */
  async replace(index: number): Promise<void> {
    const fallen = this.#member(index)
    await fallen.kill()
    const member = await MemberProcess.start(this.#env)
    this.#members[index] = member
    await fallen.handOver(member)
  }

  /** Every process must end by itself: what stays alive has left a timer or a socket behind. */
  async leave(): Promise<readonly string[]> {
    const left = await Promise.all(this.#members.splice(0).map((member) => member.leave()))
    return left.flat()
  }

  async #startMember(): Promise<void> {
    this.#members.push(await MemberProcess.start(this.#env))
  }

  #member(index: number): MemberProcess {
    const member = this.#members[index]
    if (member === undefined) throw new Error(`There is no member ${index}`)
    return member
  }
}

class MemberProcess {
  readonly #child: ChildProcess
  #onReport: (report: Report) => void = () => undefined
  #run: { readonly orders: Orders; readonly history: History } | undefined
  #lives = 1

  static async start(env: NodeJS.ProcessEnv): Promise<MemberProcess> {
    const child = forkProgram(new URL('member-child.ts', import.meta.url), [], {
      env: { ...process.env, ...env },
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    })
    const limit = new AbortController()
    const { signal } = limit
    const began = await Promise.race([
      once(child, 'message', { signal }).then(() => 'began'),
      once(child, 'exit', { signal }).then(() => 'ended before it began'),
      delay(START_LIMIT_MS, `did not begin within ${START_LIMIT_MS} ms`, { signal }),
    ]).finally(() => {
      limit.abort()
    })
    if (began !== 'began') {
      child.kill('SIGKILL')
      throw new Error(`A member process ${began}`)
    }
    return new MemberProcess(child)
  }

  private constructor(child: ChildProcess) {
    this.#child = child
    child.on('error', () => undefined) // A command to a process that has just gone; its exit is what counts.
    child.on('message', (message) => {
      const report = message as Report
      if (report.report === 'events') {
        for (const event of report.events) this.#run?.history.add(event)
      }
      this.#onReport(report)
    })
  }

  get pid(): number {
    return this.#child.pid ?? 0
  }

  get isStopped(): boolean {
    const stat = readFileSync(`/proc/${this.pid}/stat`, 'utf8')
    return stat.slice(stat.lastIndexOf(')') + 2).startsWith('T')
  }

  async begin(orders: Orders, history: History): Promise<void> {
    this.#run = { orders, history }
    await this.#told({ command: 'begin', orders }, 'begun', START_LIMIT_MS)
  }

  async end(): Promise<readonly string[]> {
    const ended = await this.#told({ command: 'end' }, 'ended', END_LIMIT_MS)
    const name = this.#run?.orders.name ?? 'a member'
    this.#run = undefined
    return ended ? [] : [`${name} did not end within ${END_LIMIT_MS} ms`]
  }

  signal(name: 'SIGSTOP' | 'SIGCONT'): void {
    this.#child.kill(name)
  }

  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const exited = once(this.#child, 'exit')
    this.#child.kill('SIGKILL')
    await exited
  }

  /** The successor's leases have other names, and its choices another seed. */
  async handOver(successor: MemberProcess): Promise<void> {
    if (this.#run === undefined) return
    const { orders, history } = this.#run
    const lives = this.#lives + 1
    successor.#lives = lives
    const base = orders.name.replace(/\.\d+$/, '')
    await successor.begin({ ...orders, name: `${base}.${lives}`, seed: orders.seed + 7 }, history)
  }

  async leave(): Promise<readonly string[]> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return []
    const exited = once(this.#child, 'exit', { signal: AbortSignal.timeout(LEAVE_LIMIT_MS) })
    this.#child.send({ command: 'leave' } satisfies Command)
    try {
      await exited
      return []
    } catch {
      await this.kill()
      return [`process ${this.pid} stayed alive ${LEAVE_LIMIT_MS} ms after everything was closed`]
    }
  }

  #told(command: Command, answer: Report['report'], limitMs: number): Promise<boolean> {
    return new Promise((resolve) => {
      if (!this.#child.connected) {
        resolve(false)
        return
      }
      const limit = setTimeout(() => {
        resolve(false)
      }, limitMs)
      this.#onReport = ({ report }) => {
        if (report !== answer) return
        clearTimeout(limit)
        resolve(true)
      }
      this.#child.send(command)
    })
  }
}
