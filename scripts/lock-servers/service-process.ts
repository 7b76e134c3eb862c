/** A server of a lock service as a process of this machine, with its own directory. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, closeSync, openSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { returnPort, takePort } from '../../src/testing/free-port.ts'
import { LAUNCH, takeDirectory } from '../../src/testing/reaper.ts'

const HOST = '127.0.0.1'
/** Three servers of Java on a busy machine take a minute until they have a leader. */
const START_LIMIT_MS = 150_000

export interface ServiceCommand {
  readonly name: string
  readonly command: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  /** Run as this user where the tests run as root. */
  readonly user?: string
  readonly isReady: () => Promise<boolean>
}

const NEVER = (): Promise<boolean> => Promise.resolve(false)

export class ServiceProcess implements AsyncDisposable {
  readonly #command: ServiceCommand
  readonly #directory: ReturnType<typeof takeDirectory>
  #child: ChildProcess | undefined

  static async start(command: ServiceCommand): Promise<ServiceProcess> {
    const service = new ServiceProcess(command)
    await service.restart()
    return service
  }

  /** Runs a program to its end, which makes the data of a server. */
  static async run(command: Omit<ServiceCommand, 'isReady'>): Promise<void> {
    const service = new ServiceProcess({ ...command, isReady: NEVER })
    try {
      const [code, by] = (await once(service.launch(), 'exit')) as [number | null, string | null]
      if (code !== 0) throw new Error(`${command.name} ended with ${by ?? code}\n${service.#log()}`)
    } finally {
      await service.close()
    }
  }

  private constructor(command: ServiceCommand) {
    this.#command = command
    this.#directory = takeDirectory(command.name)
  }

  get pid(): number {
    return this.#child?.pid ?? 0
  }

  /** Starts it again on its data; resolves when it answers. */
  async restart(): Promise<void> {
    this.launch()
    await this.ready()
  }

  launch(): ChildProcess {
    const { command, env = {}, user } = this.#command
    const { path } = this.#directory
    const log = openSync(join(path, 'server.log'), 'a')
    const asUser =
      user === undefined || process.getuid?.() !== 0
        ? []
        : ['setpriv', `--reuid=${user}`, `--regid=${user}`, '--clear-groups']
    try {
      const child = spawn('/bin/sh', ['-c', LAUNCH, path, ...asUser, ...command], {
        cwd: '/',
        detached: true,
        env: { PATH: process.env['PATH'], LC_ALL: 'C', ...env },
        stdio: ['ignore', log, log],
      })
      this.#child = child
      return child
    } finally {
      closeSync(log)
    }
  }

  async ready(): Promise<void> {
    const limit = performance.now() + START_LIMIT_MS
    while (!(await this.#command.isReady().catch(() => false))) {
      if (this.#child?.exitCode != null || performance.now() > limit) {
        const log = this.#log()
        const ended = this.#child?.exitCode != null
        const why = ended ? 'it ended' : `no answer within ${START_LIMIT_MS} ms`
        await this.kill()
        throw new Error(`${this.#command.name} did not start: ${why}\n${log}`)
      }
      await delay(30)
    }
  }

  async kill(): Promise<void> {
    const child = this.#child
    this.#child = undefined
    if (child?.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit')
    const family = familyOf(child.pid)
    for (const pid of family) signal(pid, 'SIGKILL')
    await exited
  }

  /** It and its children stand still; its connections stay open. */
  freeze(): void {
    const family = familyOf(this.pid)
    // A child that stands still does not see that its parent has ended: the reaper ends both.
    this.#reaped(family)
    for (const pid of family) signal(pid, 'SIGSTOP')
  }

  thaw(): void {
    for (const pid of familyOf(this.pid)) signal(pid, 'SIGCONT')
    this.#reaped([this.pid])
  }

  #reaped(pids: readonly number[]): void {
    writeFileSync(join(this.#directory.path, 'pid'), pids.join(' '))
  }

  #log(): string {
    return readFileSync(join(this.#directory.path, 'server.log'), 'utf8').slice(-3_000)
  }

  async close(): Promise<void> {
    await this.kill()
    await this.#directory.release()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch {
    // It ended meanwhile.
  }
}

/** A process and its children. */
function familyOf(pid: number): readonly number[] {
  const children = readdirSync('/proc').filter((name) => {
    if (!/^\d+$/.test(name)) return false
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8')
      return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]) === pid
    } catch {
      return false // It ended meanwhile.
    }
  })
  return [pid, ...children.map(Number)]
}

/** A directory for data that another user may own. It goes with this process, however that ends. */
export function dataDirectory(user?: string): { path: string; remove: () => Promise<void> } {
  const directory = takeDirectory('data')
  const { path } = directory
  chmodSync(path, 0o700) // PostgreSQL refuses data that others may read.
  if (user !== undefined && process.getuid?.() === 0) {
    execFileSync('chown', [`${user}:`, path])
    chmodSync(dirname(path), 0o711) // The user must get through, and need not look around.
  }
  return { path, remove: () => directory.release() }
}

export async function freePort(): Promise<number> {
  return takePort(HOST)
}

export { returnPort }
