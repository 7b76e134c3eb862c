import type { Command } from 'commander'
import type { HistoryVerdict } from '../../verify/history-checker.ts'
import { verifyHistory, type HistorySource } from '../../verify/verify-history.ts'
import { running, type Cli, type SharedFlags } from '../cli.ts'
import { openSource, type Source } from '../enqueue/source.ts'
import { EXIT, UsageError, type ExitCode } from '../exit-code.ts'
import { command } from '../options.ts'
import type { Output } from '../output.ts'
import { printable } from '../printable.ts'
import { ProgressLine } from '../progress-line.ts'
import { numberFlag } from '../settings.ts'
import { table } from '../table.ts'

interface Flags extends SharedFlags {
  readonly clockSkewMs: string
  readonly windowMs: string
  readonly allowMissing?: boolean
}

const MAX_LINE_BYTES = 1_048_576
const LINE_EVERY_MS = 5_000
const DAY_MS = 86_400_000

export function verifyCommand(): Command {
  return command('verify <file...>', {
    summary: 'check the leases in the logs of all processes',
    description:
      'Reads the logs of all processes, NDJSON with the level debug (- for standard input), and says whether two trusted leases of ' +
      'a resource ever overlapped, whether fencing tokens rose, and which lines are missing. Leases of one machine are compared ' +
      'on its monotonic clock, leases of different machines on their wall clocks. Exit code 1 for a violation or missing lines, ' +
      '2 when there is no line about a lease.',
    servers: 'none',
    examples: ['verify worker-1.ndjson worker-2.ndjson', 'verify --json - < all.ndjson'],
  })
    .option('--clock-skew-ms <n>', 'how far wall clocks of machines may be apart', '250')
    .option('--window-ms <n>', 'how far lines may be out of order', '60000')
    .option('--allow-missing', 'exit code 0 if lines are missing and the others are right')
    .action(running(verify))
}

async function verify(cli: Cli, files: readonly string[], flags: Flags): Promise<ExitCode> {
  const { out, signal } = cli
  const clockSkewMs = numberFlag('--clock-skew-ms', flags.clockSkewMs, 0, DAY_MS)
  const windowMs = numberFlag('--window-ms', flags.windowMs, 0, DAY_MS)
  if (new Set(files).size < files.length) throw new UsageError('A file is named twice')
  const opened = await Promise.all(files.map(openSource))
  const progress = new ReadingProgress(out, opened)
  const sources = opened.map((source, index): HistorySource => ({
    name: files[index] === '-' ? 'standard input' : (files[index] ?? ''),
    lines: textOf(source, signal, progress),
  }))
  const verdict = await verifyHistory(sources, { clockSkewMs, windowMs })
  progress.end()
  out.result({ ...verdict, lines: progress.lines, files: files.length }, () =>
    describe(out, verdict, progress.lines),
  )
  const isAllowed = verdict.verdict === 'incomplete' && flags.allowMissing === true
  return isAllowed ? EXIT.done : VERDICTS[verdict.verdict][1]
}

async function* textOf(
  source: Source,
  signal: AbortSignal,
  progress: ReadingProgress,
): AsyncGenerator<string, void, undefined> {
  for await (const { text, start, end } of source.lines(MAX_LINE_BYTES, signal)) {
    progress.read(end - start)
    // A line about a lease is never that long.
    yield text ?? ''
  }
}

/** How much has been read. */
class ReadingProgress extends ProgressLine {
  #bytes = 0
  lines = 0

  constructor(out: Output, sources: readonly Source[]) {
    // NaN where a source does not know how long it is.
    const total = sources.reduce((sum, { totalBytes = NaN }) => sum + totalBytes, 0)
    super(out, LINE_EVERY_MS, Number.isNaN(total) ? undefined : total)
  }

  read(count: number): void {
    this.#bytes += count
    if (++this.lines % 1_000 !== 0) return
    const { lines, totalBytes } = this
    const share = this.share(this.#bytes)
    const percent = share === undefined ? '' : `, ${Math.floor(100 * share)} %`
    this.show(
      () => `${lines} lines read${percent}`,
      () => ({ lines, bytes: this.#bytes, totalBytes }),
    )
  }
}

const VERDICTS = {
  clean: ['green', EXIT.done, 'clean: no violation, and no line is missing'],
  violated: ['red', EXIT.attention, 'VIOLATED'],
  incomplete: ['yellow', EXIT.attention, 'incomplete: no violation found, but lines are missing'],
  empty: [
    'yellow',
    EXIT.usage,
    'no line is about a lease: log at the level debug, as docs/verify.md says, and read those files',
  ],
} as const

function describe(out: Output, verdict: HistoryVerdict, lines: number): string {
  const { leases, resources, locks, machines, endings, extensions, uncertain } = verdict
  const [style, , words] = VERDICTS[verdict.verdict]
  if (verdict.verdict === 'empty') return `${lines} lines read\n\n${out.paint(style, words)}`
  const notJudged = `${uncertain} pairs on different machines were within ${verdict.clockSkewMs} ms: not judged`
  const ends = Object.entries(endings).map(([end, count]) => `${count} ${end}`)
  const found = verdict.findings.map(({ kind, text }) => [kind, printable(text)])
  const missing = Object.entries(verdict.missing).map(
    ([kind, count]) => [`missing-${kind}`, count] as const,
  )
  const counts = [...Object.entries(verdict.violations), ...missing]
  const total = counts.filter(([, count]) => count > 0)
  return [
    `${lines} lines read: ${leases} leases on ${resources} resources, by ${locks} locks on ${machines} machines`,
    `${ends.join(', ')}; ${extensions} extensions`,
    ...(uncertain === 0 ? [] : [notJudged]),
    ...(found.length === 0 ? [] : ['', table(['FINDING', 'WHAT'], found), '']),
    ...total.map(([kind, count]) => `${count} × ${kind}`),
    out.paint(style, words),
  ].join('\n')
}
