/** Options that several commands share, and how a command's help ends. */
import { Command } from 'commander'
import type { ExitCode } from './exit-code.ts'
import type { SharedFlags, Task, TaskOptions } from './cli.ts'
import { ENVIRONMENT_OF } from './settings.ts'

/** Runs a command's task and keeps its exit code. */
export type Run = (flags: SharedFlags, task: Task, options?: TaskOptions) => Promise<void>

export const EXIT_CODES_HELP = `Exit codes:
  0    done, healthy
  1    it ran, and something needs attention: a finding, a bad line, an error
  2    the command line or the configuration cannot be used
  3    fewer than a quorum of the masters answer or vote; the lock service grants no lease
  130  stopped with Ctrl-C`

export interface CommandHelp {
  readonly summary: string
  readonly description: string
  readonly examples: readonly string[]
  /** Which servers it needs to know. */
  readonly servers: 'masters' | 'queue' | 'both' | 'none'
}

/** A command with the options that say where the servers are. */
export function command(usage: string, help: CommandHelp): Command {
  const made = new Command(usage.split(' ', 1)[0])
  for (const argument of usage.split(' ').slice(1)) made.argument(argument)
  made.summary(help.summary).description(help.description)
  const { servers } = help
  if (servers !== 'none') addServerOptions(made, servers)
  made.option('--json', 'for machines: one JSON value a line')
  const examples = help.examples.map((example) => `  $ bullmq-redlock ${example}`).join('\n')
  made.addHelpText('after', `\nExamples:\n${examples}\n\n${EXIT_CODES_HELP}`)
  return made
}

function addServerOptions(made: Command, servers: CommandHelp['servers']): void {
  if (servers !== 'queue') {
    made.option(
      '--master <url>',
      `a lock master; repeat it for each (${ENVIRONMENT_OF.masters}, separated by commas)`,
      appended,
    )
    made.option(
      '--locks <address>',
      `another lock service: postgres://…, etcd:https://a,b or zookeeper:a:2181,b:2181 (${ENVIRONMENT_OF.locks})`,
    )
    made.option(
      '--max-lease-ms <n>',
      `the fleet's maxLeaseMs (${ENVIRONMENT_OF.maxLeaseMs}); default: what the masters have stored`,
    )
  }
  if (servers !== 'masters') {
    made.option('--queue-redis <url>', `BullMQ's Redis (${ENVIRONMENT_OF.queueRedis})`)
    made.option('--prefix <text>', `BullMQ's key prefix (${ENVIRONMENT_OF.prefix}); default: bull`)
  }
  made.option('--namespace <text>', `of the leases (${ENVIRONMENT_OF.namespace}); default: redlock`)
  made.option(
    '--timeout-ms <n>',
    `how long a server may take to answer (${ENVIRONMENT_OF.timeoutMs}); default: 1000`,
  )
  made.option('--config <file>', `JSON file with these settings (${ENVIRONMENT_OF.config})`)
}

/** For an option that may be repeated. */
export function appended(value: string, before: readonly string[] | undefined): readonly string[] {
  return [...(before ?? []), value]
}

export type Ended = (code: ExitCode) => void
