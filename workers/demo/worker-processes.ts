/** The demo's worker processes: started, told, watched, ended. */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { dirname, extname, join } from 'node:path'
import type { Writable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import { takeDirectory } from '../../src/testing/reaper.ts'
import { HOLD_FD, type Order, type Report, type WorkerConfig } from './messages.ts'

/** Beside the program that runs, in its language. */
const [, MAIN = ''] = process.argv
const PROGRAM = join(dirname(MAIN), `worker${extname(MAIN)}`)
const STOP_LIMIT_MS = 5_000

export type MemberState = 'starting' | 'working' | 'frozen' | 'dead'
type Watcher = (report: Report, member: Member) => void

/** One worker process, as far as its reports tell. */
export class Member {
  readonly name: string
  readonly #process: ChildProcess
  readonly #exited: Promise<unknown>
  state: MemberState = 'starting'
  leases = 0
  /** A fault is meant for this one; the next fault looks for another. */
  chosen = false
  /** Jobs that it has opened and not finished, failed or given back. */
  readonly open = new Set<string>()

  constructor(config: WorkerConfig) {
    this.name = config.name
    const args = [...process.execArgv, PROGRAM, JSON.stringify(config)]
    this.#process = spawn(process.execPath, args, {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc', 'pipe'],
    })
    // A worker ends with the demo, but not while it is frozen: the program that ends the servers
    // then ends it too.
    const reaped = takeDirectory(config.name)
    writeFileSync(join(reaped.path, 'pid'), String(this.#process.pid))
    this.#exited = once(this.#process, 'exit').then(() => {
      this.state = 'dead'
      this.leases = 0
      return reaped.release()
    })
    // Orders to a process that has just died get lost, and that is all there is to it.
    this.#process.on('error', () => undefined)
    this.#holdPipe().on('error', () => undefined)
  }

  onReport(take: (report: Report) => void): void {
    this.#process.on('message', (report) => {
      take(report as Report)
    })
  }

  order(order: Order): void {
    this.#process.send(order)
  }

  /** kill -9, and waits until the process is gone. */
  async kill(): Promise<void> {
    this.#process.kill('SIGKILL')
    await this.#exited
  }

  freeze(): void {
    this.#process.kill('SIGSTOP')
    this.state = 'frozen'
  }

  /** Goes on, and lets a held write go out. */
  thaw(): void {
    this.#holdPipe().write('.')
    this.#process.kill('SIGCONT')
    this.state = 'working'
  }

  async stop(): Promise<void> {
    if (this.state === 'dead') return
    this.#process.kill('SIGTERM')
    const limit = new AbortController()
    const late = delay(STOP_LIMIT_MS, undefined, { signal: limit.signal }).then(
      () => this.kill(),
      () => undefined, // Ended in time.
    )
    await Promise.race([this.#exited, late])
    limit.abort()
  }

  #holdPipe(): Writable {
    return this.#process.stdio[HOLD_FD] as Writable
  }
}

export class WorkerProcesses {
  readonly #config: Omit<WorkerConfig, 'name'>
  readonly #watchers = new Set<Watcher>()
  readonly members: Member[] = []

  constructor(config: Omit<WorkerConfig, 'name'>) {
    this.#config = config
  }

  add(): Member {
    const member = new Member({ ...this.#config, name: `worker-${this.members.length + 1}` })
    this.members.push(member)
    member.onReport((report) => {
      note(report, member)
      for (const watch of this.#watchers) watch(report, member)
    })
    return member
  }

  watch(watcher: Watcher): void {
    this.#watchers.add(watcher)
  }

  /** The first report from now on that `match` accepts; rejects when none came in time. */
  async until<Found extends Report>(
    what: string,
    limitMs: number,
    signal: AbortSignal,
    match: (report: Report, member: Member) => Found | undefined,
  ): Promise<{ readonly report: Found; readonly member: Member }> {
    let watcher: Watcher | undefined
    const found = new Promise<{ report: Found; member: Member }>((resolve) => {
      watcher = (report, member) => {
        const matching = match(report, member)
        if (matching !== undefined) resolve({ report: matching, member })
      }
      this.#watchers.add(watcher)
    })
    const limit = new AbortController()
    const late = delay(limitMs, undefined, { signal: AbortSignal.any([limit.signal, signal]) })
    try {
      return await Promise.race([
        found,
        late.then(() => Promise.reject(new Error(`${what} was not seen within ${limitMs} ms`))),
      ])
    } finally {
      limit.abort()
      if (watcher !== undefined) this.#watchers.delete(watcher)
    }
  }

  /** Ends all of them: in an orderly way, or at once. */
  async close(how: 'stop' | 'kill'): Promise<void> {
    await Promise.all(
      this.members.map((member) => (how === 'stop' ? member.stop() : member.kill())),
    )
  }
}

function note(report: Report, member: Member): void {
  switch (report.type) {
    case 'ready':
      member.state = 'working'
      break
    case 'status':
      member.leases = report.leases
      break
    case 'opened':
      member.open.add(report.jobId)
      break
    case 'finished':
    case 'failed':
    case 'requeued':
      member.open.delete(report.jobId)
      break
    default:
      break
  }
}
