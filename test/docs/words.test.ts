/**
 * Plain English in pages and sources: comments, errors, logs and the texts of the command line; in
 * the titles of tests; in the names of files and of what they declare.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import ts from 'typescript'
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
  'here to say yes': 'Re-run with --yes to confirm.',
  'stands in its line': 'no jobs waiting',
  'could vote': 'can vote',
  'waits in the line of': 'is in line for',
  'to be woken for': 'page on',
  'one who is woken': 'the engineer on call',
  twin: 'duplicate',
  twins: 'duplicates',
  standingOf: 'constantsFor',
  keepRare: 'flags',
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

/** Words with several meanings. A title of a test has the exact one. */
const VAGUE: Readonly<Record<string, string>> = {
  kept: 'stored, renewed, reserved',
  told: 'reports, hears, learns',
  untold: 'not reported',
  look: 'read, poll, snapshot',
  looks: 'reads, polls',
  looked: 'read',
  looking: 'reading, polling',
  standing: 'constant',
  'as it stands': 'unchanged',
  'stands still': 'is frozen, stops',
  'stood still': 'was frozen, was idle',
  rare: 'the flag',
  rarely: 'seldom',
  seat: 'place, slot',
  woken: 'started, notified',
  'given back': 'requeued, released, healed',
  'gives back': 'requeues, releases',
  'passed on': 'handed over',
  'goes on': 'continues',
  'go on': 'continue',
  'whatever becomes': 'also when …',
  lab: 'harness',
  rig: 'harness',
  arena: 'harness',
  crew: 'processes',
}

/** Words that say too little as part of a name. */
const NOT_IN_NAMES: Readonly<Record<string, string>> = {
  asked: 'request, pending, the number of …',
  kept: 'reserved, stored, remaining',
  look: 'snapshot, read, poll, check, inspect',
  looks: 'snapshots, tries, checks',
  looked: 'scanned, read',
  looking: 'reading, probing',
  passed: 'received, handed over',
  rare: 'the flag',
  seat: 'place, slot',
  standing: 'constant',
  told: 'reported, received',
  twin: 'duplicate',
  twins: 'duplicates',
  untold: 'not reported',
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

function avoiding(list: Readonly<Record<string, string>>) {
  const words = Object.keys(list).map((word) => word.replaceAll(' ', String.raw`[\s*/]+`))
  const avoided = new RegExp(String.raw`\b(?:${words.join('|')})\b`, 'gi')
  return (name: string, text: string, firstLine = 1): readonly string[] =>
    [...text.matchAll(avoided)].map(({ 0: word, index }) => {
      const line = firstLine + text.slice(0, index).split('\n').length - 1
      const plain = word.replaceAll(/[\s*/]+/g, ' ').toLowerCase()
      const better = Object.entries(list).find(([each]) => each.toLowerCase() === plain)?.[1]
      return `${name}:${line}: "${plain}". Write: ${better ?? ''}`
    })
}

test('pages and sources use plain words', () => {
  const found = files().flatMap((name) =>
    avoiding(AVOIDED)(name, readFileSync(join(ROOT, name), 'utf8')),
  )
  expect(found.join('\n')).toBe('')
})

const parsed = (name: string): ts.SourceFile =>
  ts.createSourceFile(name, readFileSync(join(ROOT, name), 'utf8'), ts.ScriptTarget.Latest)

function below(folder: string, end: RegExp): readonly string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && end.test(entry.name))
    .map((entry) => relative(ROOT, join(entry.parentPath, entry.name)))
    .filter((name) => !OTHERS.test(name))
}

/** What declares a test: Vitest's functions, and ours around them. */
const DECLARES =
  /^(it|test|describe|itReaps|testShares|same|sameAlone|sameAndAsSoon|differs|differsAlone|refused|untouched)\b/

test('titles of tests use plain words', () => {
  const inTitle = avoiding({ ...AVOIDED, ...VAGUE })
  const found = below('test', /\.ts$/).flatMap((name) => {
    const file = parsed(name)
    const inFile: string[] = []
    const visit = (node: ts.Node): void => {
      const title = ts.isCallExpression(node) ? node.arguments[0] : undefined
      const isTitle = title && (ts.isStringLiteralLike(title) || ts.isTemplateExpression(title))
      if (isTitle && DECLARES.test(file.text.slice(node.getStart(file), title.pos))) {
        const { line } = file.getLineAndCharacterOfPosition(title.getStart(file))
        inFile.push(...inTitle(name, title.getText(file), line + 1))
      }
      ts.forEachChild(node, visit)
    }
    visit(file)
    return inFile
  })
  expect(found.join('\n')).toBe('')
})

/** `#lookedAt` and `LOOKED_AT` are the words `looked` and `at`. */
function wordsOf(name: string): readonly string[] {
  return name
    .replaceAll(/([a-z\d])([A-Z])/g, '$1 $2')
    .split(/[^A-Za-z]+/)
    .map((word) => word.toLowerCase())
}

function vagueNames(place: string, name: string): readonly string[] {
  return wordsOf(name).flatMap((word) => {
    const better = NOT_IN_NAMES[word]
    return better === undefined
      ? []
      : [`${place}: \`${name}\`. Write instead of "${word}": ${better}`]
  })
}

/** What a node declares: a class, a type, a function, a variable, a field, a parameter. */
function declaredName(node: ts.Node): ts.Identifier | ts.PrivateIdentifier | undefined {
  if (ts.isPropertyAccessExpression(node) || !('name' in node)) return undefined
  const name = node.name as ts.Node | undefined
  const isName = name !== undefined && (ts.isIdentifier(name) || ts.isPrivateIdentifier(name))
  return isName ? name : undefined
}

test('files and what they declare have exact names', () => {
  const names = ['src', 'workers'].flatMap((folder) => below(folder, /\.(ts|js)$/))
  const found = names.flatMap((file) => {
    const source = parsed(file)
    const inFile = [...vagueNames(file, file)]
    const visit = (node: ts.Node): void => {
      const name = declaredName(node)
      if (name !== undefined) {
        const { line } = source.getLineAndCharacterOfPosition(name.getStart(source))
        inFile.push(...vagueNames(`${file}:${line + 1}`, name.text))
      }
      ts.forEachChild(node, visit)
    }
    visit(source)
    return inFile
  })
  expect(names.length).toBeGreaterThan(200)
  expect(found.join('\n')).toBe('')
})
