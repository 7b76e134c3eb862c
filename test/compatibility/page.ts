/**
 * Writes docs/compatibility.md from the rows. `npm run docs:compatibility` writes the file; a test
 * compares.
 */
import { writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { markdown } from '../../scripts/docs/markdown.ts'
import { differentialTests } from './differential-tests.ts'
import { ROWS, type Row, type RowSection, type Verdict } from './rows.ts'
import { bullmqVersion, SECTIONS } from './surface.ts'

export const PAGE = join(resolve(import.meta.dirname, '../..'), 'docs/compatibility.md')

const TITLES: Partial<Readonly<Record<RowSection, string>>> = {
  'In use': 'In use',
  'queue.on': 'Events of a queue: `queue.on`',
  'worker.on': 'Events of a worker: `worker.on`',
  'queueEvents.on': 'Events of all workers: `queueEvents.on`',
}

const cell = (text: string): string => text.replaceAll('|', '\\|')

export function page(): Promise<string> {
  const files = new Map(differentialTests().map(({ title, file }) => [title, file] as const))
  const shownBy = ({ test }: Row): string =>
    test === undefined ? 'cannot differ' : `${cell(test)} (\`${files.get(test) ?? '?'}\`)`
  const name = ({ section, member }: Row): string =>
    section === 'In use' ? cell(member) : `\`${member}\``
  const table = (rows: readonly Row[]): string =>
    [
      '| Member | Verdict | What happens | Shown by |',
      '| --- | --- | --- | --- |',
      ...rows.map(
        (row) => `| ${name(row)} | ${row.verdict} | ${cell(row.how)} | ${shownBy(row)} |`,
      ),
    ].join('\n')
  const count = (verdict: Verdict): number => ROWS.filter((row) => row.verdict === verdict).length
  const others = ROWS.filter(({ verdict }) => verdict !== 'same')
  const sections = [...Object.keys(SECTIONS), 'In use'] as RowSection[]
  const text = [
    '# Compatibility with BullMQ',
    'Change `Queue` to `LockedQueue` and `Worker` to `LockedWorker`: this page says what becomes of every public member of BullMQ. ' +
      `The members are read from the types of BullMQ ${bullmqVersion()}, and a member without a row fails a test. ` +
      'A row that can differ names a test that runs one scenario with BullMQ’s classes and with these, on real servers. It compares what ran, in which order, with which result and how soon.',
    `${ROWS.length} rows: ${count('same')} same, ${count('differs')} differ, ${count('refused')} are refused. ` +
      '"Customer" stands for a resource: whatever `resource` names.',
    'This page is written by `npm run docs:compatibility`; a test compares it.',
    '## What differs, and what is refused',
    [
      '| Where | What | Verdict | What happens |',
      '| --- | --- | --- | --- |',
      ...others.map(
        (row) => `| ${row.section} | ${name(row)} | ${row.verdict} | ${cell(row.how)} |`,
      ),
    ].join('\n'),
    ...sections.flatMap((section) => [
      `## ${TITLES[section] ?? `\`${section}\``}`,
      table(ROWS.filter((row) => row.section === section)),
    ]),
  ].join('\n\n')
  return markdown(text, PAGE)
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) writeFileSync(PAGE, await page())
