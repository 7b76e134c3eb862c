/**
 * What the masters could do at best: redis-benchmark asks all five at once, each over one
 * connection.
 */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { findProgram } from '../../scripts/find-program.ts'
import { COMPARE_AND_DELETE } from '../peers/raw.ts'
import type { Harness } from './harness.ts'

const LIMIT_MS = 60_000
const KEYS = 10_000

/**
 * About this number of requests: in whole pipelines, because with another one redis-benchmark now
 * and then takes its own end for a loss.
 *
 * @returns how often a second it did `SET NX PX` and a compare-and-delete on every master; NaN
 * where redis-benchmark is not installed.
 */
export async function askRedisBenchmark(
  harness: Harness,
  atOnce: number,
  requests: number,
): Promise<number> {
  const program = findProgram('redis-benchmark') ?? findProgram('valkey-benchmark')
  if (program === undefined) return NaN
  const whole = Math.ceil(requests / atOnce) * atOnce
  const key = 'bound:__rand_int__'
  const commands = [
    ['SET', key, 'token', 'NX', 'PX', '10000'],
    ['EVALSHA', await harness.loadScript(COMPARE_AND_DELETE), '1', key, 'token'],
  ]
  let secondsEach = 0
  for (const command of commands) {
    const rates = harness.fleet.masters.map(({ host, port }) => {
      const flags = ['-h', host, '-p', `${port}`, '-c', '1', '-P', `${atOnce}`]
      const size = ['-n', `${whole}`, '-r', `${KEYS}`, '--csv']
      return rateOf(program, [...flags, ...size, ...command])
    })
    secondsEach += 1 / Math.min(...(await Promise.all(rates)))
  }
  return 1 / secondsEach
}

async function rateOf(program: string, args: readonly string[]): Promise<number> {
  const { stdout } = await promisify(execFile)(program, args, { timeout: LIMIT_MS })
  // "test","rps","avg_latency_ms",… and a line for the test, whose name may have commas.
  const rate = /^.*?"(\d+\.\d+)","/m.exec(stdout.split('\n').slice(1).join('\n'))?.[1]
  if (rate === undefined) throw new Error(`${program} said no rate: ${stdout}`)
  return Number(rate)
}
