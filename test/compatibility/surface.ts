/**
 * Reads BullMQ's public surface from the `.d.ts` files of the installed package: the members of its
 * classes, the properties of their options, and the events that can be listened to.
 *
 * Left out: what is private, protected, or marked `@internal` or `@private`, and what Node's
 * `EventEmitter` brings.
 */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import ts from 'typescript'

/** `Queue` is a class, `JobsOptions` a type; a listener's members are events. */
export const SECTIONS = {
  Queue: ['Queue'],
  Worker: ['Worker'],
  Job: ['Job'],
  FlowProducer: ['FlowProducer'],
  QueueOptions: ['QueueOptions'],
  WorkerOptions: ['WorkerOptions', 'RateLimiterOptions', 'MetricsOptions', 'AdvancedOptions'],
  JobsOptions: ['JobsOptions', 'BackoffOptions', 'KeepJobs', 'ParentOptions'],
  DeduplicationOptions: ['DeduplicationOptions'],
  RepeatOptions: ['RepeatOptions'],
  'queue.on': ['QueueListener'],
  'worker.on': ['WorkerListener'],
  'queueEvents.on': ['QueueEventsListener'],
} as const

export type Section = keyof typeof SECTIONS

export interface PublicMember {
  readonly section: Section
  /** As the documentation names it: `add`, `Worker.RateLimitError`, `limiter.max`. */
  readonly member: string
}

/** Members of a type that is a part of another one carry that part's name. */
const PARTS: Readonly<Record<string, string>> = {
  RateLimiterOptions: 'limiter',
  MetricsOptions: 'metrics',
  AdvancedOptions: 'settings',
  BackoffOptions: 'backoff',
  KeepJobs: 'removeOnComplete',
  ParentOptions: 'parent',
}

const PACKAGE = createRequire(import.meta.url).resolve('bullmq/package.json')

export function bullmqVersion(): string {
  const { version } = JSON.parse(readFileSync(PACKAGE, 'utf8')) as { readonly version: string }
  return version
}

/** @param packageJson of the BullMQ that is read; the installed one if it is left out. */
export function publicSurface(packageJson: string = PACKAGE): readonly PublicMember[] {
  const entry = join(dirname(packageJson), 'dist/esm/index.d.ts')
  const program = ts.createProgram([entry], {
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    skipLibCheck: true,
    strict: true,
    // What Node's types and the language's bring is left out.
    ...{ types: [], noLib: true },
  })
  return surfaceIn(program, entry)
}

/** The types that a module exports, by their names. */
export function exportsOf(program: ts.Program, entry: string): ReadonlyMap<string, ts.Symbol> {
  const checker = program.getTypeChecker()
  const source = program.getSourceFile(entry)
  const module = source && checker.getSymbolAtLocation(source)
  if (module === undefined) throw new Error(`There are no types in ${entry}`)
  return new Map(
    checker
      .getExportsOfModule(module)
      .map((symbol) => [symbol.name, resolved(checker, symbol)] as const),
  )
}

/** BullMQ's, in a program that has its types. */
export function surfaceIn(
  program: ts.Program,
  entry = join(dirname(PACKAGE), 'dist/esm/index.d.ts'),
): readonly PublicMember[] {
  const checker = program.getTypeChecker()
  const exported = exportsOf(program, entry)
  return Object.entries(SECTIONS).flatMap(([section, names]) => {
    const members = names.flatMap((name) => {
      const symbol = exported.get(name)
      if (symbol === undefined) throw new Error(`This BullMQ exports no ${name}`)
      return membersOf(checker, symbol, PARTS[name])
    })
    return [...new Set(members)].map((member) => ({ section: section as Section, member }))
  })
}

function resolved(checker: ts.TypeChecker, symbol: ts.Symbol): ts.Symbol {
  const isAlias = (symbol.flags & ts.SymbolFlags.Alias) !== 0
  return isAlias ? checker.getAliasedSymbol(symbol) : symbol
}

function membersOf(
  checker: ts.TypeChecker,
  symbol: ts.Symbol,
  part: string | undefined,
): readonly string[] {
  const type = checker.getDeclaredTypeOfSymbol(symbol)
  const kinds = type.isUnion() ? type.types : [type]
  const own = kinds
    .flatMap((kind) => checker.getPropertiesOfType(kind))
    .filter((member) => isPublic(member, BULLMQ))
    .map(({ name }) => (part === undefined ? name : `${part}.${name}`))
  const isClass = (symbol.flags & ts.SymbolFlags.Class) !== 0
  if (!isClass) return own
  const statics = checker
    .getPropertiesOfType(checker.getTypeOfSymbol(symbol))
    .filter((member) => member.name !== 'prototype' && isPublic(member, BULLMQ))
    .map(({ name }) => `${symbol.name}.${name}`)
  return [...own, ...statics]
}

const HIDDEN = ts.ModifierFlags.Private | ts.ModifierFlags.Protected

const BULLMQ = /\/node_modules\/bullmq\//

/** @param files in which it is declared. */
export function isPublic({ name, declarations = [] }: ts.Symbol, files: RegExp): boolean {
  if (name.startsWith('__@') || name.includes('#')) return false
  return declarations.some((declaration) => {
    if (!files.test(declaration.getSourceFile().fileName)) return false
    if ((ts.getCombinedModifierFlags(declaration) & HIDDEN) !== 0) return false
    const tags = ts.getJSDocTags(declaration).map(({ tagName }) => tagName.text)
    return !tags.includes('internal') && !tags.includes('private')
  })
}
