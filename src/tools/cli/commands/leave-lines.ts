import { counted } from '../../../counted.ts'
import { YES, type CommandSpec } from '../command.ts'
import { EXIT } from '../exit-code.ts'

export const leaveLines: CommandSpec = {
  usage: 'leave-lines <queue>',
  summary: 'go back to plain BullMQ workers',
  description:
    'Makes every job that waits for its turn an ordinary waiting job, which a plain worker starts. ' +
    'Run it when the last LockedWorker of the queue has stopped: a running one puts them back in their lines.',
  servers: 'queue',
  examples: ['leave-lines invoices --yes'],
  options: [YES],
  async run(cli, queue: string, { yes }: { readonly yes?: boolean }) {
    const view = await cli.requiredQueue(queue)
    const warning = `Jobs of one resource in queue ${queue} may then run at the same time.`
    const agreed = await cli.confirms(warning, 'Let all jobs leave their lines?', yes)
    if (!agreed) return EXIT.attention
    const jobs = await view.leaveLines(queue)
    const told = counted(jobs, 'job left its line', 'jobs left their lines')
    cli.out.result({ queue, jobs }, () => told)
    return EXIT.done
  },
}
