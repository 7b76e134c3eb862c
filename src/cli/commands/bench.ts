import { randomBytes } from 'node:crypto'
import type { Command } from 'commander'
import { systemClock } from '../../clock.ts'
import { Redlock } from '../../redlock/redlock.ts'
import { keyspace } from '../../redlock/keyspace.ts'
import { FleetProbe } from '../../operator/fleet-probe.ts'
import { duration } from '../duration.ts'
import type { Cli, SharedFlags } from '../cli.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { command, defaulted, type Run } from '../options.ts'
import { mastersOf, numberFlag } from '../settings.ts'
import { table } from '../table.ts'
import { silentLogger } from '../../logger.ts'

interface Flags extends SharedFlags {
  readonly seconds: string
  readonly concurrency: string
}

const LEASE_MS = 5_000

export function benchCommand(run: Run): Command {
  return command('bench', {
    summary: 'how fast this fleet is from here',
    description:
      'Acquires and releases leases for a few seconds and says how long that took. It writes to the masters, under a new namespace of ' +
      'its own (<namespace>-bench-…), and deletes it afterwards. It takes time from the workers on this fleet.',
    servers: 'masters',
    examples: ['bench', 'bench --seconds 10 --concurrency 64 --json'],
  })
    .addOption(defaulted('--seconds <n>', 'how long', '3'))
    .addOption(defaulted('--concurrency <n>', 'leases at a time', '1'))
    .action((flags: Flags) => run(flags, (cli) => bench(cli, flags), { graceful: true }))
}

interface Samples {
  readonly acquireMs: number[]
  readonly releaseMs: number[]
  refused: number
}

async function bench(cli: Cli, flags: Flags): Promise<ExitCode> {
  const { settings, out, signal } = cli
  const seconds = numberFlag('--seconds', flags.seconds, 1, 3_600)
  const concurrency = numberFlag('--concurrency', flags.concurrency, 1, 10_000)
  const namespace = `${settings.namespace}-bench-${randomBytes(6).toString('hex')}`
  const masters = mastersOf(settings)
  out.note(`writes under ${namespace}:* on ${masters.length} masters and deletes it afterwards`)
  const resources = Array.from({ length: concurrency }, (_, index) => `bench:${index}`)
  const probe = new FleetProbe({ masters, namespace, timeoutMs: settings.timeoutMs })
  cli.defer(async () => {
    await cleanUp(probe, namespace, resources)
    probe.close()
  })
  await using redlock = new Redlock({
    ...{ masters, namespace, leaseMs: LEASE_MS, maxLeaseMs: LEASE_MS, logger: silentLogger },
  })
  // No other client knows this namespace, so there are no leases that a master could have forgotten.
  await redlock.bootstrap({ newFleet: true, confirmed: true })
  const samples: Samples = { acquireMs: [], releaseMs: [], refused: 0 }
  const startedAt = systemClock.now()
  const until = startedAt + seconds * 1_000
  const goesOn = (): boolean => systemClock.now() < until && !signal.aborted
  await Promise.all(resources.map((resource) => measure(redlock, resource, samples, goesOn)))
  const tookMs = systemClock.now() - startedAt
  report(cli, samples, { namespace, concurrency, tookMs })
  if (signal.aborted) return EXIT.interrupted
  return samples.refused === 0 ? EXIT.done : EXIT.attention
}

async function measure(
  redlock: Redlock,
  resource: string,
  samples: Samples,
  goesOn: () => boolean,
): Promise<void> {
  while (goesOn()) {
    const startedAt = systemClock.now()
    const outcome = await redlock.tryAcquire(resource)
    if (outcome.status !== 'granted') {
      samples.refused++
      continue
    }
    const grantedAt = systemClock.now()
    await outcome.lease.release()
    samples.acquireMs.push(grantedAt - startedAt)
    samples.releaseMs.push(systemClock.now() - grantedAt)
  }
}

interface Conditions {
  readonly namespace: string
  readonly concurrency: number
  readonly tookMs: number
}

function report({ out }: Cli, samples: Samples, conditions: Conditions): void {
  const { tookMs } = conditions
  const leases = samples.acquireMs.length
  const leasesPerSecond = Math.round((leases / tookMs) * 1_000)
  const acquireMs = quantiles(samples.acquireMs)
  const releaseMs = quantiles(samples.releaseMs)
  const { refused } = samples
  out.result({ ...conditions, leases, refused, leasesPerSecond, acquireMs, releaseMs }, () => {
    const rows = [
      ['acquire', ...cells(acquireMs)],
      ['release', ...cells(releaseMs)],
    ]
    return (
      `${table(['', 'P50', 'P95', 'P99', 'MAX'], rows)}\n\n` +
      `${leases} leases in ${duration(tookMs)}, ${leasesPerSecond} a second, ${conditions.concurrency} at a time; ` +
      `${refused} attempts not granted`
    )
  })
}

interface Quantiles {
  readonly p50: number
  readonly p95: number
  readonly p99: number
  readonly max: number
}

function quantiles(samples: readonly number[]): Quantiles {
  const sorted = [...samples].sort((a, b) => a - b)
  const at = (share: number): number => {
    const value = sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0
    return Math.round(value * 100) / 100
  }
  return { p50: at(0.5), p95: at(0.95), p99: at(0.99), max: at(1) }
}

function cells({ p50, p95, p99, max }: Quantiles): readonly string[] {
  return [p50, p95, p99, max].map(duration)
}

/** What is left, a few tombstones, ends by itself within two leases. */
async function cleanUp(
  fleet: FleetProbe,
  namespace: string,
  resources: readonly string[],
): Promise<void> {
  const keys = keyspace(namespace)
  const names = resources.flatMap((resource) => [keys.lease(resource), keys.fence(resource)])
  await fleet.each((probe) => probe.command('UNLINK', keys.master, ...names))
}
