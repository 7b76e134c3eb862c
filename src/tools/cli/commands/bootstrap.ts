import { counted } from '../../../counted.ts'
import { Redlock } from '../../../redlock/redlock.ts'
import { YES, type CommandSpec } from '../command.ts'
import { EXIT } from '../exit-code.ts'
import { mastersOf } from '../settings.ts'
import { silentLogger } from '../../../logger.ts'

const DEFAULT_MAX_LEASE_MS = 30_000

export const bootstrap: CommandSpec = {
  usage: 'bootstrap',
  summary: 'let the masters of a new fleet vote at once',
  description:
    'States that this fleet is new and holds no leases, so that its masters vote at once and not after one maxLeaseMs. Safe only ' +
    'if no worker has run on it within the last maxLeaseMs. Refused if a master holds a lease.',
  servers: 'masters',
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
