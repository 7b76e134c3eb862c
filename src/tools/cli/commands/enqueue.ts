import { randomBytes } from 'node:crypto'
import { Option, type Command } from 'commander'
import type { SettingsDifferError } from '../../../errors.ts'
import { bullmqConnection } from '../../operator/queue-address.ts'
import { running, type Cli, type SharedFlags } from '../cli.ts'
import { enqueueLines, type EnqueueEnd } from '../enqueue/enqueue-lines.ts'
import { JobAdder } from '../enqueue/job-adder.ts'
import type { JobLineOptions } from '../enqueue/job-line.ts'
import { Progress, type Tally } from '../enqueue/progress.ts'
import { openSource } from '../enqueue/source.ts'
import { EXIT, UsageError, type ExitCode } from '../exit-code.ts'
import { command } from '../options.ts'
import { numberFlag, queueRedisOf } from '../settings.ts'

interface Flags extends SharedFlags {
  readonly resourceField?: string
  readonly resourcePrefix: string
  readonly slots: string
  readonly jobName: string
  readonly idField?: string
  readonly attempts: string
  readonly onBadLine: string
  readonly batch: string
  readonly runId?: string
  readonly rememberHours: string
  readonly maxLineBytes: string
}

const HOUR_MS = 3_600_000

export function enqueueCommand(): Command {
  return command('enqueue <queue> <file>', {
    summary: 'add the lines of an NDJSON file as jobs',
    description:
      'Adds every line of an NDJSON file (- for standard input) as a job whose data is the ' +
      "line's object. Memory use does not grow with the file. Stop it with Ctrl-C, or kill it, and run " +
      'it again: it adds nothing twice. The queue remembers each line for --remember-hours, also ' +
      'when its job has finished and is gone.',
    servers: 'queue',
    examples: [
      'enqueue invoices invoices.ndjson --resource-field customerId --resource-prefix customer:',
      'enqueue invoices - --run-id monday --on-bad-line skip < invoices.ndjson',
    ],
  })
    .option('--resource-field <field>', 'the field that names the resource of a job (LockedQueue)')
    .option('--resource-prefix <text>', 'goes before that field, as in the workers', '')
    .option('--slots <n>', 'how many jobs of a resource may run at once, as in the workers', '1')
    .option('--job-name <name>', 'the name of every job', 'job')
    .option(
      '--id-field <field>',
      'the job id is in this field; default: made of line number and content',
    )
    .option('--attempts <n>', 'how often a job may fail', '3')
    .addOption(
      new Option('--on-bad-line <what>', 'report it, then continue or stop')
        .choices(['skip', 'stop'])
        .default('stop'),
    )
    .option('--batch <n>', 'lines at a time', '500')
    .option('--run-id <name>', 'distinguishes two imports of the same lines')
    .option('--remember-hours <n>', 'how long the queue remembers a line', '24')
    .option('--max-line-bytes <n>', 'a longer line is a bad line', '1048576')
    .action(running(enqueue, { graceful: true }))
}

async function enqueue(cli: Cli, queue: string, file: string, flags: Flags): Promise<ExitCode> {
  const { out, settings, signal } = cli
  const input = file === '-' ? 'standard input' : file
  const batch = numberFlag('--batch', flags.batch, 1, 10_000)
  const slots = numberFlag('--slots', flags.slots, 1, 1_000)
  const maxLineBytes = numberFlag('--max-line-bytes', flags.maxLineBytes, 1, 256 * 1_048_576)
  // Two inputs without a name are two imports.
  const runId = flags.runId ?? (file === '-' ? randomBytes(8).toString('hex') : '')
  const job = jobOptions(flags, runId)
  const connection = bullmqConnection(queueRedisOf(settings))
  const source = await openSource(file)
  await cli.requiredQueue()
  const different: SettingsDifferError[] = []
  const onDifference = (error: SettingsDifferError): void => {
    different.push(error)
    progress.end()
    out.note(error.message, { event: 'settings-differ', problem: error.message })
  }
  const adder = new JobAdder({ ...job, ...settings, queue, connection, slots, onDifference })
  cli.defer(() => adder.close())
  const progress = new Progress(out, source.totalBytes)
  const { end, tally } = await enqueueLines({
    ...{ adder, job, batch, signal },
    lines: source.lines(maxLineBytes, signal),
    onBadLine: flags.onBadLine === 'skip' ? 'skip' : 'stop',
    badLine: (line, problem) => {
      progress.end()
      out.note(`line ${line} ${problem}`, { event: 'bad-line', line, problem })
    },
    progress: (soFar) => {
      progress.showTally(soFar)
    },
  })
  await adder.close() // Then all is known that differs.
  progress.end()
  out.result({ queue, input, end, ...tally, runId }, () =>
    describe(end, tally, queue, file === '-' && flags.runId === undefined),
  )
  if (end === 'interrupted') return EXIT.interrupted
  return tally.bad > 0 || different.length > 0 ? EXIT.attention : EXIT.done
}

function jobOptions(flags: Flags, runId: string): JobLineOptions {
  const { jobName, resourceField, resourcePrefix, idField } = flags
  if (jobName === '') throw new UsageError('Expected --job-name to be a name; got ""')
  return {
    ...{ jobName, runId, resourceField, resourcePrefix, idField },
    attempts: numberFlag('--attempts', flags.attempts, 1, 1_000),
    rememberMs: numberFlag('--remember-hours', flags.rememberHours, 1, 8_760) * HOUR_MS,
  }
}

function describe(
  end: EnqueueEnd,
  { lines, added, alreadyThere, bad }: Tally,
  queue: string,
  nameless: boolean,
): string {
  const counts = [`${added} added to ${queue}`]
  if (alreadyThere > 0) counts.push(`${alreadyThere} had been added before`)
  if (bad > 0) counts.push(`${bad} bad`)
  const again = nameless
    ? 'a second run adds its lines again: give standard input a --run-id'
    : 'run it again to continue'
  const verdict = end === 'done' ? 'done' : `stopped after line ${lines} (${end}); ${again}`
  return `${counts.join(', ')}; ${verdict}`
}
