/** Which machine this is, and its clock: what processes write is put in one order by them. */
import { readFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { systemClock } from './clock.ts'

const OFFSET_SAMPLES = 5
let offsetMs: number | undefined

/**
 * What to add to `systemClock.now()` for the monotonic clock that all processes of a machine share.
 */
export function machineOffsetMs(): number {
  return (offsetMs ??= measuredOffsetMs())
}

/** Of several readings the one that took least: a process may be interrupted between two clocks. */
function measuredOffsetMs(): number {
  let best = { tookMs: Infinity, offsetMs: 0 }
  for (let sample = 0; sample < OFFSET_SAMPLES; sample++) {
    const before = systemClock.now()
    const machineMs = Number(process.hrtime.bigint()) / 1e6
    const tookMs = systemClock.now() - before
    if (tookMs < best.tookMs) best = { tookMs, offsetMs: machineMs - before - tookMs / 2 }
  }
  return best.offsetMs
}

const BOOT_ID = '/proc/sys/kernel/random/boot_id'
let machine: string | undefined

/**
 * Names the machine, and on Linux its boot: what has the same name has the same monotonic clock.
 */
export function machineId(): string {
  return (machine ??= readMachineId())
}

function readMachineId(): string {
  try {
    return readFileSync(BOOT_ID, 'utf8').trim()
  } catch {
    return hostname() // No Linux.
  }
}
