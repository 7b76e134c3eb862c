import { createServer } from 'node:http'
import { isLoopback, MIN_TOKEN_LENGTH } from '../../dashboard/access.ts'
import { dashboardHandler } from '../../dashboard/handler.ts'
import type { DashboardOptions } from '../../dashboard/options.ts'
import type { Cli } from '../cli.ts'
import { EXIT, UsageError, aborted } from '../exit-code.ts'
import { listen } from '../listen.ts'
import { listOption, numberOption, type CommandSpec } from '../command.ts'
import { Option } from 'commander'
import { mastersOf, OPERATOR_TOKEN_VARIABLE, TOKEN_VARIABLE } from '../settings.ts'

interface DashboardFlags {
  readonly host: string
  readonly port: number
  readonly token?: string
  readonly operatorToken?: string
  readonly allowedHost?: readonly string[]
  readonly everyMs: number
  readonly limit: number
}

export const dashboard: CommandSpec = {
  usage: 'dashboard',
  summary: 'a web page of masters, leases, lines and losses, live',
  description:
    'Serves a web page that shows what is wrong now, failed jobs, lines of jobs with what each waits for, live leases and the fleet. ' +
    'It looks only while the page is open. Without a token it answers this machine alone. Users who log in with the ' +
    "operator's token may also act: retry, skip, cancel, pause, limit, release.",
  examples: ['dashboard', 'dashboard --host 0.0.0.0 --port 8080  # with a token'],
  options: [
    new Option('--host <address>', 'where it listens').default('127.0.0.1'),
    numberOption('--port <n>', '0 for a free port', [0, 65_535], 4280),
    new Option(
      '--token <text>',
      `gives access (${TOKEN_VARIABLE}); needed unless --host belongs to this machine alone`,
    ),
    new Option(
      '--operator-token <text>',
      `lets users act who log in with it (${OPERATOR_TOKEN_VARIABLE}); without it the page only reads`,
    ),
    listOption(
      '--allowed-host <name>',
      'a name under which a proxy on this machine reaches the page; repeat it for each',
    ),
    numberOption('--every-ms <n>', 'how often to look, while it is open', [100, 3_600_000], 1_000),
    numberOption('--limit <n>', 'leases to look at; a search finds others', [1, 10_000], 1_000),
  ],
  graceful: true,
  async run(cli, flags: DashboardFlags) {
    const { out, signal } = cli
    const { host, port } = flags
    const handler = cli.closes(dashboardHandler(await optionsOf(cli, flags)))
    const server = cli.closes(await listen(createServer(handler), { host, port, flag: '--port' }))
    const url = `http://${host.includes(':') ? `[${host}]` : host}:${server.port}/`
    out.note(`dashboard at ${url}`, { event: 'dashboard', url, port: server.port })
    await aborted(signal)
    return signal.reason === 'SIGINT' ? EXIT.interrupted : EXIT.done
  },
}

async function optionsOf(cli: Cli, flags: DashboardFlags): Promise<DashboardOptions> {
  const { settings } = cli
  const { host, allowedHost = [], everyMs, limit } = flags
  const locks = await cli.locks()
  const { namespace, prefix, timeoutMs, maxLeaseMs, queueRedis } = settings
  const token = checkedToken('token', TOKEN_VARIABLE, flags.token)
  const operatorToken = checkedToken('operator-token', OPERATOR_TOKEN_VARIABLE, flags.operatorToken)
  if ((token ?? operatorToken) === undefined && !isLoopback(host)) {
    throw new UsageError(
      `--host ${host} lets other machines in, so a token is needed: set ${TOKEN_VARIABLE} (\`openssl rand -hex 24\` makes one) or give ` +
        '--token, or leave --host at 127.0.0.1 and go through `ssh -L`.',
    )
  }
  return {
    ...(locks === undefined ? { masters: mastersOf(settings) } : { locks }),
    ...{ namespace, prefix, timeoutMs },
    ...(maxLeaseMs !== undefined && { maxLeaseMs }),
    ...(queueRedis !== undefined && { queueRedis }),
    ...(token !== undefined && { token }),
    ...(operatorToken !== undefined && { operatorToken }),
    ...{ allowedHosts: allowedHost, everyMs, limit },
  }
}

/** @throws UsageError for one that is too short. */
function checkedToken(
  flag: string,
  variable: string,
  given = process.env[variable] || undefined,
): string | undefined {
  if (given === undefined || given.length >= MIN_TOKEN_LENGTH) return given
  throw new UsageError(
    `Expected --${flag} or ${variable} to have at least ${MIN_TOKEN_LENGTH} characters, got ${given.length}; \`openssl rand -hex 24\` makes one`,
  )
}
