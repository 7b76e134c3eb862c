import type { Command } from 'commander'
import { counted } from '../../../counted.ts'
import { running, type Cli, type SharedFlags } from '../cli.ts'
import { confirmed } from '../confirm.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { command } from '../options.ts'

interface LeaveLinesFlags extends SharedFlags {
  readonly yes?: boolean
}

export function leaveLinesCommand(): Command {
  return command('leave-lines <queue>', {
    summary: 'go back to plain BullMQ workers',
    description:
      'Makes every job that waits for its turn an ordinary waiting job, which a plain worker starts. ' +
      'Run it when the last LockedWorker of the queue has stopped: a running one puts them back in their lines.',
    servers: 'queue',
    examples: ['leave-lines invoices --yes'],
  })
    .option('--yes', 'do not ask')
    .action(running(leaveLines))
}

async function leaveLines(cli: Cli, queue: string, { yes }: LeaveLinesFlags): Promise<ExitCode> {
  const view = await cli.requiredQueue(queue)
  const warning = `Jobs of one resource in queue ${queue} may then run at the same time.`
  if (!(await confirmed(cli, warning, 'Let all jobs leave their lines?', yes)))
    return EXIT.attention
  const jobs = await view.leaveLines(queue)
  cli.out.result({ queue, jobs }, () => counted(jobs, 'job left its line', 'jobs left their lines'))
  return EXIT.done
}
