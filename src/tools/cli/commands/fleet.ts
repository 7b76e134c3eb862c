/** What is done to a whole fleet: it begins, or changes. */
import { DAY_MS } from '../../../clock.ts'
import { counted } from '../../../counted.ts'
import { diagnose } from '../../operator/diagnosis.ts'
import { duration } from '../../operator/words.ts'
import { resizeFleet } from '../../operator/resize.ts'
import { planResize, type ResizePlan } from '../../operator/resize-plan.ts'
import { surveyFleet } from '../../operator/survey.ts'
import { EXIT } from '../exit-code.ts'
import { listOption, numberOption, YES, type CommandSpec } from '../command.ts'
import { addresses, mastersOf } from '../settings.ts'
import { Redlock } from '../../../redlock/redlock.ts'
import { silentLogger } from '../../../logger.ts'

interface ResizeFlags {
  readonly to?: readonly string[]
  readonly toMaxLeaseMs?: number
  readonly toFenceTtlMs?: number
  readonly yes?: boolean
}

export const resize: CommandSpec = {
  usage: 'resize',
  summary: 'change the masters of a fleet, or its maxLeaseMs and fenceTtlMs',
  description:
    'Makes the masters of --master those of --to, and changes maxLeaseMs and fenceTtlMs of the fleet. ' +
    'Meanwhile no lease is granted or extended, for as long as the leases that are held. ' +
    'Deploy the clients with `previous` first: they follow by themselves. ' +
    'If it is interrupted, run it again: it goes on.',
  examples: [
    'resize --to redis://a --to redis://b --to redis://c',
    'resize --to-max-lease-ms 60000',
  ],
  options: [
    listOption('--to <url>', 'a master of the new fleet; repeat it for each; default: --master'),
    numberOption('--to-max-lease-ms <n>', 'maxLeaseMs of the new fleet', [100, DAY_MS]),
    numberOption('--to-fence-ttl-ms <n>', 'fenceTtlMs of the new fleet', [1_000, 366 * DAY_MS]),
    YES,
  ],
  async run(cli, flags: ResizeFlags) {
    const { out, settings, signal } = cli
    const { toMaxLeaseMs: maxLeaseMs, toFenceTtlMs: fenceTtlMs, yes } = flags
    const old = cli.fleet()
    const masters = flags.to && addresses({ value: flags.to, source: '--to' })
    const next = cli.fleet(settings.timeoutMs, masters)
    const plan = await planResize(old, next, { maxLeaseMs, fenceTtlMs })
    if (plan.isDone) {
      out.result({ ...plan.to, changed: false }, () => 'the fleet is as you want it: nothing to do')
      return EXIT.done
    }
    if (!(await cli.confirms(warningOf(plan), 'Resize the fleet?', yes))) return EXIT.attention
    const interrupted = (): void => {
      const event = { event: 'interrupted', signal: String(signal.reason) }
      out.note('interrupted: closed masters grant nothing until the same command has run', event)
    }
    signal.addEventListener('abort', interrupted)
    const { pausedMs, late } = await resizeFleet(old, next, plan, (ms) => {
      const event = { event: 'paused', forMs: ms }
      out.note(`all masters are closed; waits ${duration(ms)} for the leases to end`, event)
    })
    signal.removeEventListener('abort', interrupted)
    const { voting, quorum, masters: all } = diagnose(await surveyFleet(next))
    const { left, to } = plan
    const done = { ...to, changed: true, voting, late, left, pausedMs: Math.round(pausedMs) }
    const restarted = 'restarted meanwhile: it votes one maxLeaseMs after a client connects'
    out.result(done, () =>
      [
        `${voting} of ${counted(all.length, 'master votes', 'masters vote')}, with maxLeaseMs ${to.maxLeaseMs}; ` +
          `no lease was granted for ${duration(pausedMs)}`,
        ...late.map((master) => `${master} ${restarted}`),
        ...left.map(
          (master) => `${master} is still closed for another resize: empty it before use`,
        ),
        'Clients with `previous` follow within a second. Others are refused: deploy them.',
      ].join('\n'),
    )
    if (voting < quorum) return EXIT.noQuorum
    return voting === all.length ? EXIT.done : EXIT.attention
  },
}

function warningOf({ from, to, pauseMs, resumes, hasOpened }: ResizePlan): string {
  const begun = resumes ? 'This goes on with a resize that was interrupted.\n' : ''
  const pause = hasOpened
    ? ''
    : `No lease is granted until those that are held are over: at most ${duration(pauseMs)}.\n`
  return (
    `${begun}The fleet has ${counted(from.masters.length, 'master')} and maxLeaseMs ${from.maxLeaseMs}, ` +
    `and will have ${counted(to.masters.length, 'master')} and maxLeaseMs ${to.maxLeaseMs}.\n${pause}` +
    'A job that runs for longer loses its lease and runs again.\n' +
    'Clients without `previous` are refused from now on.'
  )
}

const DEFAULT_MAX_LEASE_MS = 30_000

export const bootstrap: CommandSpec = {
  usage: 'bootstrap',
  summary: 'let the masters of a new fleet vote at once',
  description:
    'States that this fleet is new and holds no leases, so that its masters vote at once and not after one maxLeaseMs. Safe only ' +
    'if no worker has run on it within the last maxLeaseMs. Refused if a master holds a lease.',
  examples: ['bootstrap', 'bootstrap --yes --max-lease-ms 60000'],
  options: [YES],
  async run(cli, { yes }: { readonly yes?: boolean }) {
    const { out, settings } = cli
    const masters = mastersOf(settings)
    const maxLeaseMs = (await cli.maxLeaseMs()) ?? DEFAULT_MAX_LEASE_MS
    const warning =
      `This states that no worker has held a lease on ${masters.length === 1 ? 'this master' : `these ${masters.length} masters`} within the last ${maxLeaseMs} ms ` +
      '(maxLeaseMs). If that is wrong, two workers may hold one resource.'
    if (!(await cli.confirms(warning, 'Is this a new fleet?', yes))) return EXIT.attention
    const { namespace } = settings
    await using redlock = new Redlock({ masters, namespace, maxLeaseMs, logger: silentLogger })
    const voting = await redlock.bootstrap({ newFleet: true, confirmed: true })
    const all = redlock.status().masters
    const others = all.filter(({ name }) => !voting.includes(name))
    out.result({ voting, others, maxLeaseMs }, () =>
      [
        `${voting.length} of ${counted(all.length, 'master votes', 'masters vote')}, with maxLeaseMs ${maxLeaseMs}`,
        ...others.map(({ name, state, reason }) => `${name}: ${reason ?? state}`),
      ].join('\n'),
    )
    return others.length === 0 ? EXIT.done : EXIT.attention
  },
}
