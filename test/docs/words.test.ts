/** Plain English in pages and sources: comments, errors, logs and the texts of the command line. */
import { readdirSync, readFileSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { expect, test } from 'vitest'

const ROOT = resolve(import.meta.dirname, '../..')

/** Words that a reader has to think about, and what to write. */
const AVOIDED: Readonly<Record<string, string>> = {
  whoever: 'the noun: the client, the worker',
  whom: 'the noun: the client, the worker',
  nobody: 'no client, no worker; is free',
  somebody: 'another client, another program',
  everybody: 'all clients, all workers',
  anybody: 'a client, a worker',
  'for ever': 'no expiry, without end',
  forever: 'no expiry, without end',
  'so many': 'the number of …, the most …',
  'of its own': 'its own …',
  'in the same breath': 'at once',
  'may not look': 'Access denied.',
  'held by those who waited': 'is reserved for waiting clients',
  'whatever works on queue': 'settings differ between processes',
  'must agree': 'the same as …',
  'was given back': 'requeued',
  'here to say yes': 'Re-run with --force to confirm.',
  'stands in its line': 'no jobs waiting',
  'could vote': 'can vote',
  'waits in the line of': 'is in line for',
  'to be woken for': 'page on',
  'one who is woken': 'the engineer on call',
  twin: 'duplicate',
  twins: 'duplicates',
  standingOf: 'constantsFor',
  keepRare: 'flags',
  itsFence: 'predecessorCounter',
  nobodyElseWaits: 'queueIsEmpty',
  wasOvertaken: 'workerStartedBeforeJoin',
  tookItOut: 'removedFromLine',
  KeptValues: 'ResultStore',
  silentOnes: 'unreachableMasters',
  QueueSide: 'WorkerQueueState',
  SAY_EVERY_MS: 'PUBLISH_INTERVAL_MS',
  HEEDED_MS: 'ENTRY_TTL_MS',
  'work-force': 'processes',
}

const PAGES = readdirSync(ROOT).filter((name) => name.endsWith('.md'))
const READ = ['docs', 'src', 'examples', 'workers', 'deploy', 'scripts', '.github', '.ci'] as const
/** Texts of others, and what a build leaves. */
const OTHERS = /(^|\/)(node_modules|dist|data|package-lock\.json)(\/|$)|\.(png|svg|tgz)$/

function files(): readonly string[] {
  const below = READ.flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => relative(ROOT, join(entry.parentPath, entry.name))),
  )
  return [...PAGES, ...below].filter((name) => !OTHERS.test(name))
}

const words = Object.keys(AVOIDED).map((word) => word.replaceAll(' ', String.raw`[\s*/]+`))
const avoided = new RegExp(String.raw`\b(?:${words.join('|')})\b`, 'gi')

function foundIn(name: string, text: string): readonly string[] {
  return [...text.matchAll(avoided)].map(({ 0: word, index }) => {
    const line = text.slice(0, index).split('\n').length
    const plain = word.replaceAll(/[\s*/]+/g, ' ').toLowerCase()
    const better = Object.entries(AVOIDED).find(([each]) => each.toLowerCase() === plain)?.[1]
    return `${name}:${line}: "${plain}". Write: ${better ?? ''}`
  })
}

test('pages and sources say it in plain words', () => {
  const found = files().flatMap((name) => foundIn(name, readFileSync(join(ROOT, name), 'utf8')))
  expect(found.join('\n')).toBe('')
})
