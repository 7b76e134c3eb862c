/**
 * Wall clocks that tests set: of servers started through a wrapper on the PATH, and of members by
 * their environment.
 */
import { execFile } from 'node:child_process'
import {
  chmodSync,
  closeSync,
  mkdtempSync,
  openSync,
  readSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { getOrInsert } from '../../src/get-or-insert.ts'
import { findServerBinary } from '../../src/testing/choose-backend.ts'

const COMPILERS = ['cc', 'gcc', 'clang'] as const
const COMPILE_LIMIT_MS = 30_000

export type ShimAnswer =
  | { readonly status: 'ready'; readonly shim: ClockShim }
  /** Why clocks cannot be set here, for whoever reads the output. */
  | { readonly status: 'absent'; readonly reason: string }

/** Compiles the shim; nothing is installed for it. */
export async function compileShim(): Promise<ShimAnswer> {
  if (process.platform !== 'linux') return { status: 'absent', reason: 'LD_PRELOAD is for Linux' }
  const search = await findServerBinary()
  if (search.status === 'missing') return { status: 'absent', reason: 'no server on the PATH' }
  const directory = mkdtempSync(join(tmpdir(), 'bullmq-redlock-clock-'))
  chmodSync(directory, 0o777) // A server of another user keeps its clock there too.
  const library = join(directory, 'clock-shim.so')
  const source = fileURLToPath(new URL('clock-shim.c', import.meta.url))
  for (const compiler of COMPILERS) {
    try {
      const flags = ['-O2', '-shared', '-fPIC', '-o', library, source]
      await promisify(execFile)(compiler, flags, { timeout: COMPILE_LIMIT_MS })
      return { status: 'ready', shim: new ClockShim(directory, library, search.binary.path) }
    } catch {
      continue // Not installed, or without the headers: the next one may do.
    }
  }
  rmSync(directory, { recursive: true })
  return { status: 'absent', reason: `no C compiler (${COMPILERS.join(', ')})` }
}

export class ClockShim {
  readonly #directory: string
  readonly #library: string
  readonly #path = process.env['PATH'] ?? ''
  /** Each knows where it has been set to. */
  readonly #clocks = new Map<string, ShimmedClock>()

  constructor(directory: string, library: string, server: string) {
    this.#directory = directory
    this.#library = library
    // A server finds its clock by its port, which stands in the configuration that it is given.
    const wrapper = join(directory, basename(server))
    const clock = `CLOCK_SHIM="${directory}/$(sed -n 's/^port //p' "$1" 2>/dev/null)"`
    writeFileSync(wrapper, `#!/bin/sh\n${clock} LD_PRELOAD="${library}" exec "${server}" "$@"\n`)
    chmodSync(wrapper, 0o755)
    process.env['PATH'] = `${directory}${delimiter}${this.#path}`
  }

  /** For processes that are not servers. */
  environment(name: string): NodeJS.ProcessEnv {
    return { CLOCK_SHIM: join(this.#directory, name), LD_PRELOAD: this.#library }
  }

  /**
   * Of a server's port, or of the name given to {@link environment}; its process must have started.
   */
  clock(name: string | number): ShimmedClock {
    const file = join(this.#directory, String(name))
    return getOrInsert(this.#clocks, file, () => new ShimmedClock(file))
  }

  remove(): void {
    process.env['PATH'] = this.#path
    rmSync(this.#directory, { recursive: true, force: true })
  }
}

export class ShimmedClock {
  readonly #file: string
  #drift = 0
  #baseNs = 0n
  #offsetNs = 0n

  constructor(file: string) {
    this.#file = file
  }

  /** How often the process has looked at this clock: 0 means that it has another one. */
  get looks(): number {
    return Number(this.#read().readBigInt64LE(24))
  }

  /** How far the clock is ahead of real time. */
  get aheadMs(): number {
    return Number(this.#offsetNs + this.#gainedNs(realNs())) / 1e6
  }

  /** Moves the clock at once. */
  step(ms: number): void {
    this.#offsetNs += BigInt(Math.round(ms * 1e6))
    this.#write()
  }

  /** From now on the clock runs at this rate; it does not jump. */
  run(rate: number): void {
    const now = realNs()
    this.#offsetNs += this.#gainedNs(now)
    this.#baseNs = now
    this.#drift = rate - 1
    this.#write()
  }

  #gainedNs(now: bigint): bigint {
    return BigInt(Math.round(Number(now - this.#baseNs) * this.#drift))
  }

  #read(): Buffer {
    const bytes = Buffer.alloc(32)
    const file = openSync(this.#file, 'r')
    readSync(file, bytes, 0, bytes.length, 0)
    closeSync(file)
    return bytes
  }

  /** In one write, and not over the counter of looks. */
  #write(): void {
    const bytes = Buffer.alloc(24)
    bytes.writeDoubleLE(this.#drift, 0)
    bytes.writeBigInt64LE(this.#baseNs, 8)
    bytes.writeBigInt64LE(this.#offsetNs, 16)
    const file = openSync(this.#file, 'r+')
    writeSync(file, bytes, 0, bytes.length, 0)
    closeSync(file)
  }
}

function realNs(): bigint {
  return BigInt(Math.round((performance.timeOrigin + performance.now()) * 1e6))
}
