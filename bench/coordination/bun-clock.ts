/** Bun counts `process.hrtime` from the start of the process; all processes need one clock. */
import { monotonicMs } from '../../test/faults/monotonic.ts'

interface BunFfi {
  readonly dlopen: (
    library: string,
    symbols: Record<string, { args: readonly string[]; returns: string }>,
  ) => { readonly symbols: { clock_gettime(clock: number, time: BigInt64Array): number } }
}

const CLOCK_MONOTONIC = 1

/** @returns a clock that shows what {@link monotonicMs} shows in Node. */
export async function bunMonotonicMs(): Promise<() => number> {
  const name = 'bun:ffi'
  const { dlopen } = (await import(name)) as BunFfi
  const library = process.platform === 'darwin' ? 'libSystem.B.dylib' : 'libc.so.6'
  const { symbols } = dlopen(library, { clock_gettime: { args: ['i32', 'ptr'], returns: 'i32' } })
  const time = new BigInt64Array(2)
  symbols.clock_gettime(CLOCK_MONOTONIC, time)
  const offsetMs = Number(time[0]) * 1_000 + Number(time[1]) / 1e6 - monotonicMs()
  return () => monotonicMs() + offsetMs
}
