/** Nothing public is forgotten: what is neither drawn, nor refused, nor apart fails here. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import ts from 'typescript'
import { describe, expect, test } from 'vitest'
import { publicSurface, type Section } from '../compatibility/surface.ts'
import { drawnKeys, PUBLIC, type Part } from './public.ts'

const ROOT = join(import.meta.dirname, '../..')
const PLANS = 2_000
/** Types of BullMQ that no type of ours extends. */
const BULLMQ: readonly Section[] = [
  ...(['Job', 'JobsOptions', 'DeduplicationOptions', 'RepeatOptions', 'FlowProducer'] as const),
]

/** Members of our types, and of those of BullMQ that they extend, by the name of the type. */
function ownSurface(names: readonly string[]): ReadonlyMap<string, readonly string[]> {
  const entry = join(ROOT, 'src/index.ts')
  const program = ts.createProgram([entry], {
    ...{ module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext },
    ...{ target: ts.ScriptTarget.ESNext, skipLibCheck: true, strict: true, types: ['node'] },
    ...{ allowImportingTsExtensions: true, noEmit: true },
  })
  const checker = program.getTypeChecker()
  const source = program.getSourceFile(entry)
  const module = source && checker.getSymbolAtLocation(source)
  if (module === undefined) throw new Error(`There are no types in ${entry}`)
  const exported = new Map(checker.getExportsOfModule(module).map((each) => [each.name, each]))
  return new Map(
    names.map((name) => {
      const symbol = exported.get(name)
      if (symbol === undefined) throw new Error(`src/index.ts exports no ${name}`)
      const isAlias = (symbol.flags & ts.SymbolFlags.Alias) !== 0
      const type = checker.getDeclaredTypeOfSymbol(
        isAlias ? checker.getAliasedSymbol(symbol) : symbol,
      )
      return [
        name,
        checker
          .getPropertiesOfType(type)
          .filter(isPublic)
          .map((each) => each.name),
      ]
    }),
  )
}

const HIDDEN = ts.ModifierFlags.Private | ts.ModifierFlags.Protected

function isPublic({ name, declarations = [] }: ts.Symbol): boolean {
  if (name.startsWith('__@') || name.includes('#')) return false
  return declarations.some((declaration) => {
    if ((ts.getCombinedModifierFlags(declaration) & HIDDEN) !== 0) return false
    const tags = ts.getJSDocTags(declaration).map(({ tagName }) => tagName.text)
    if (tags.includes('internal') || tags.includes('private')) return false
    return !/@types.node|typescript.lib/.test(declaration.getSourceFile().fileName)
  })
}

describe('what is public', () => {
  const own = Object.keys(PUBLIC).filter((name) => !(BULLMQ as readonly string[]).includes(name))
  const surface = new Map(ownSurface(own))
  for (const { section, member } of publicSurface()) {
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
