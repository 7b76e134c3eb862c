/** One worker process of the benchmark, on Bun: for a library that runs on nothing else. */
import { monotonicMs } from '../../test/faults/monotonic.ts'
import { bunqueue } from './peers.ts'
import { serveWorker } from './serve-worker.ts'

interface BunFfi {
  readonly dlopen: (
    library: string,
    symbols: object,
  ) => { readonly symbols: { clock_gettime(clock: number, time: BigInt64Array): number } }
}

// Bun counts `process.hrtime` from the start of the process; all processes need one clock.
const CLOCK_MONOTONIC = 1
const ffi = 'bun:ffi'
const { dlopen } = (await import(ffi)) as BunFfi
const library = process.platform === 'darwin' ? 'libSystem.B.dylib' : 'libc.so.6'
const { symbols } = dlopen(library, { clock_gettime: { args: ['i32', 'ptr'], returns: 'i32' } })
const time = new BigInt64Array(2)
symbols.clock_gettime(CLOCK_MONOTONIC, time)
const offsetMs = Number(time[0]) * 1_000 + Number(time[1]) / 1e6 - monotonicMs()
serveWorker(bunqueue, () => monotonicMs() + offsetMs)
