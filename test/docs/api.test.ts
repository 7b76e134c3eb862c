/**
 * Every public name says what it is, every example compiles, and every member is drawn by
 * `npm run combine`, refused, or apart.
 */
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import ts from 'typescript'
import { describe, expect, test } from 'vitest'
import {
  compilerOptions,
  entries,
  exported,
  page,
  PAGE,
  sharedHost,
  typesOfEntries,
  usersOf,
  type Exported,
} from '../../scripts/docs/api.ts'
import { drawnKeys, PUBLIC, type Part } from '../combination/public.ts'
import { exportsOf, isPublic, surfaceIn, type Section } from '../compatibility/surface.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const types = typesOfEntries()
const all: readonly Exported[] = exported(types)

test('docs/api.md equals the doc comments (npm run docs:api writes it)', async () => {
  expect(readFileSync(PAGE, 'utf8')).toBe(await page(all))
})

test('every exported name and every member has a comment', () => {
  const literal = /: '[^']*'$/ // A code or a status says it itself.
  const silent = all.flatMap(({ name, comment, members }) => [
    ...(comment.about === '' ? [name] : []),
    ...members
      .filter((each) => each.comment.about === '' && !literal.test(each.signature))
      .map((each) => `${name}.${each.name}`),
  ])
  expect(silent).toEqual([])
})

test('every class and function has an example, and every type is in one that has', () => {
  const shown = new Set(
    all.filter(({ comment }) => comment.examples.length > 0).map(({ name }) => name),
  )
  for (let before = -1; before < shown.size;) {
    before = shown.size
    for (const { name } of all)
      if (usersOf(name, all).some((user) => shown.has(user))) shown.add(name)
  }
  const missing = all.filter(({ name, kind, comment, signature }) => {
    if (kind === 'Errors') return false // That of `RedlockError` shows how to tell them apart.
    if (kind === 'Types') return !shown.has(name)
    // A class that only another name makes has no constructor to show.
    return comment.examples.length === 0 && signature !== '' && !shown.has(name)
  })
  expect(missing.map(({ name }) => name)).toEqual([])
})

/** What the examples take from their surroundings. */
const SURROUNDINGS = `
import { createBullBoard } from '@bull-board/api'
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter'
import { ExpressAdapter } from '@bull-board/express'
import { Worker, type Job } from 'bullmq'
import express from 'express'
import { Pool, type PoolClient } from 'pg'
declare const redlock: Redlock
declare const connection: { readonly url: string }
declare const masters: readonly string[]
declare const token: string
declare const order: { readonly customerId: number }
declare const charge: (
  order: { readonly customerId: number },
  context: { readonly signal?: AbortSignal; readonly fencingToken: number },
) => Promise<string>
declare const queue: LockedQueue
declare const job: Job
declare const lease: Lease
declare const jobLease: JobLease
declare const response: Response
declare const processor: LeasedProcessor<any, any>
declare const resource: (job: Job) => string
declare const pool: Pool
declare const client: PoolClient
declare const redis: FencedRedisClient
declare const objects: FencedObjects<string>
declare const app: express.Express
declare const test: (name: string, run: () => Promise<void>) => void
`

/** Each in a function of its own. */
function programOf(examples: readonly string[]): string {
  const imports = entries().map(({ name, file }) => {
    const names = all.filter(({ entry }) => entry === name)
    const list = names.map((one) => (one.kind === 'Types' ? `type ${one.name}` : one.name))
    return `import { ${list.join(', ')} } from '${file}'`
  })
  const bodies = examples.map((code, index) => `async function example${index}() {\n${code}\n}`)
  return [...imports, SURROUNDINGS, ...bodies].join('\n')
}

function errorsIn(examples: readonly string[]): readonly string[] {
  const file = join(ROOT, 'test/docs/examples-of-the-api.ts')
  const text = programOf(examples)
  const options: ts.CompilerOptions = {
    ...compilerOptions(),
    ...{ noUnusedLocals: false, noUnusedParameters: false, isolatedModules: false },
    ...{ verbatimModuleSyntax: false, rewriteRelativeImportExtensions: false },
  }
  const host = sharedHost(options)
  const read = host.getSourceFile.bind(host)
  host.getSourceFile = (name, version, ...rest) =>
    name === file ? ts.createSourceFile(name, text, version, true) : read(name, version, ...rest)
  const exists = host.fileExists.bind(host)
  host.fileExists = (name) => name === file || exists(name)
  const program = ts.createProgram([file], options, host, types)
  const source = program.getSourceFile(file)
  return ts.getPreEmitDiagnostics(program, source).map(({ messageText, start = 0 }) => {
    const line = text.slice(text.lastIndexOf('\n', start) + 1).split('\n')[0] ?? ''
    return `${line.trim()}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`
  })
}

test('every example is TypeScript, and compiles', () => {
  const examples = all.flatMap(({ comment, members }) => [
    ...comment.examples,
    ...members.flatMap((member) => member.comment.examples),
  ])
  expect(examples).not.toContain('')
  expect(examples.length).toBeGreaterThan(25)
  const wrong = "await redlock.acquire('a', { waitMs: 'long' })"
  const errors = errorsIn([...examples, wrong])
  expect(errors).toHaveLength(1)
  expect(errors[0]).toContain(wrong)
})

const PLANS = 1_000
/** Types of BullMQ that no type of ours extends. */
const BULLMQ: readonly Section[] = [
  ...(['Job', 'JobsOptions', 'DeduplicationOptions', 'RepeatOptions', 'FlowProducer'] as const),
]
/** Node's types and the language's have members that are none of ours. */
const OURS = /^(?!.*(@types.node|typescript.lib))/

/** Members of our types, and of those of BullMQ that they extend, by the name of the type. */
function ownSurface(names: readonly string[]): Map<string, readonly string[]> {
  const checker = types.getTypeChecker()
  const exported = exportsOf(types, join(ROOT, 'src/index.ts'))
  return new Map(
    names.map((name) => {
      const symbol = exported.get(name)
      if (symbol === undefined) throw new Error(`src/index.ts exports no ${name}`)
      const members = checker.getPropertiesOfType(checker.getDeclaredTypeOfSymbol(symbol))
      return [name, members.filter((each) => isPublic(each, OURS)).map((each) => each.name)]
    }),
  )
}

describe('what is public, and combined', () => {
  const own = Object.keys(PUBLIC).filter((name) => !(BULLMQ as readonly string[]).includes(name))
  const surface = ownSurface(own)
  for (const { section, member } of surfaceIn(types)) {
    if (!BULLMQ.includes(section)) continue
    surface.set(section, [...(surface.get(section) ?? []), member])
  }

  test.each([...surface])('%s: each member is drawn, refused or apart', (name, members) => {
    const listed = [...(PUBLIC[name]?.keys() ?? [])]
    expect(members.length).toBeGreaterThan(0)
    expect(listed.toSorted()).toEqual([...new Set(members)].sort())
  })

  test('what is said to be drawn is in the plans', () => {
    const keys = drawnKeys(PLANS)
    const missing = parts().flatMap(([member, part]) =>
      'drawn' in part && !keys.has(part.drawn) ? [`${member}: ${part.drawn}`] : [],
    )
    expect(missing).toEqual([])
  })

  test('what is refused has a test of that title', () => {
    const missing = parts().flatMap(([member, part]) => {
      if (!('refused' in part)) return []
      const [file, title] = part.refused
      const text = readFileSync(join(ROOT, file), 'utf8')
      return text.includes(title) ? [] : [`${member}: ${file}: ${title}`]
    })
    expect(missing).toEqual([])
  })
})

function parts(): readonly (readonly [string, Part])[] {
  return Object.entries(PUBLIC).flatMap(([type, members]) =>
    [...members].map(([member, part]) => [`${type}.${member}`, part] as const),
  )
}
