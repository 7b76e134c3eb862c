import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { addAbortSignal } from 'node:stream'
import { DAY_MS } from '../../../clock.ts'
import { counted } from '../../../counted.ts'
import { messageOf } from '../../../message-of.ts'
import type { HistoryVerdict } from '../../verify/history-checker.ts'
import { linesOf, verifyHistory, type HistorySource } from '../../verify/verify-history.ts'
import { EXIT, UsageError } from '../exit-code.ts'
import { numberOption, type CommandSpec } from '../command.ts'
import { Option } from 'commander'
import { table, type Output } from '../output.ts'
import { printable } from '../../operator/words.ts'

interface VerifyFlags {
  readonly clockSkewMs: number
  readonly allowMissing?: boolean
}

export const verify: CommandSpec = {
  usage: 'verify <file...>',
  summary: 'check the leases in the logs of all processes',
  description:
    'Reads the logs of all processes, NDJSON with the level debug (- for standard input), and says whether two trusted leases of ' +
    'a resource ever overlapped, whether fencing tokens rose, and which lines are missing. Leases of one machine are compared ' +
    'on its monotonic clock, leases of different machines on their wall clocks. Exit code 1 for a violation or missing lines, ' +
    '2 when there is no line about a lease.',
  examples: ['verify worker-1.ndjson worker-2.ndjson', 'verify --json - < all.ndjson'],
  options: [
    numberOption('--clock-skew-ms <n>', 'how far wall clocks may be apart', [0, DAY_MS], 250),
    new Option('--allow-missing', 'exit code 0 if lines are missing and the others are right'),
  ],
  async run(cli, files: readonly string[], { clockSkewMs, allowMissing = false }: VerifyFlags) {
    const { out, signal } = cli
    if (new Set(files).size < files.length) throw new UsageError('A file is named twice')
    const sources = await Promise.all(files.map((file) => sourceOf(file, signal)))
    const verdict = await verifyHistory(sources, { clockSkewMs })
    out.result({ ...verdict, files: files.length }, () => describe(out, verdict))
    const isAllowed = verdict.verdict === 'incomplete' && allowMissing
    return isAllowed ? EXIT.done : VERDICTS[verdict.verdict][1]
  },
}

/** @throws UsageError when there is no such file. */
async function sourceOf(path: string, signal: AbortSignal): Promise<HistorySource> {
  if (path === '-') {
    return { name: 'standard input', lines: linesOf(() => addAbortSignal(signal, process.stdin)) }
  }
  const found = await stat(path).catch((error: unknown) => {
    throw new UsageError(`cannot read ${path}: ${messageOf(error)}`)
  })
  if (!found.isFile()) throw new UsageError(`${path} is not a file; - reads standard input`)
  return { name: path, lines: linesOf(() => addAbortSignal(signal, createReadStream(path))) }
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

function describe(out: Output, verdict: HistoryVerdict): string {
  const { lines, leases, resources, locks, machines, endings, extensions, uncertain } = verdict
  const [style, , words] = VERDICTS[verdict.verdict]
  if (verdict.verdict === 'empty')
    return `${counted(lines, 'line')} read\n\n${out.paint(style, words)}`
  const notJudged = `${counted(uncertain, 'pair', 'pairs')} on different machines within ${verdict.clockSkewMs} ms: not judged`
  const ends = Object.entries(endings).map(([end, count]) => `${count} ${end}`)
  const found = verdict.findings.map(({ kind, text }) => [kind, printable(text)])
  const missing = Object.entries(verdict.missing).map(
    ([kind, count]) => [`missing-${kind}`, count] as const,
  )
  const counts = [...Object.entries(verdict.violations), ...missing]
  const total = counts.filter(([, count]) => count > 0)
  return [
    `${counted(lines, 'line')} read: ${counted(leases, 'lease')} on ${counted(resources, 'resource')}, by ${counted(locks, 'lock')} on ${counted(machines, 'machine')}`,
    `${ends.join(', ')}; ${counted(extensions, 'extension')}`,
    ...(uncertain === 0 ? [] : [notJudged]),
    ...(found.length === 0 ? [] : ['', table(['FINDING', 'WHAT'], found), '']),
    ...total.map(([kind, count]) => `${count} × ${kind}`),
    out.paint(style, words),
  ].join('\n')
}
