/**
 * Writes docs/api.md: every name that an entry point of the package exports, with its signature and
 * its doc comment. `npm run docs:api` writes the file; a test compares. TypeDoc writes the same
 * facts on seven pages of 6,900 lines, and compiles no example.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import ts from 'typescript'
import { ENTRIES } from '../entries.ts'
import { anchorOf, markdown } from './markdown.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const SRC = join(ROOT, 'src/')
export const PAGE = join(ROOT, 'docs/api.md')

type Kind = 'Classes and functions' | 'Types' | 'Errors'
/** What the language or Node calls, and events, which `LockedWorkerListener` describes. */
const UNSHOWN: ReadonlySet<string> = new Set(['on', 'off', 'once', 'emit', '[Symbol.asyncDispose]'])
const KINDS: readonly Kind[] = ['Classes and functions', 'Types', 'Errors']

interface Comment {
  readonly about: string
  readonly byDefault: string
  readonly returns: string
  readonly throws: readonly string[]
  readonly examples: readonly string[]
}

interface Member {
  readonly name: string
  readonly signature: string
  readonly comment: Comment
}

export interface Exported {
  readonly name: string
  readonly entry: string
  readonly kind: Kind
  readonly file: string
  /** TypeScript, as the page shows it. */
  readonly signature: string
  readonly comment: Comment
  readonly members: readonly Member[]
  /** All names in its types. */
  readonly mentions: ReadonlySet<string>
}

export interface Entry {
  /** What an application imports. */
  readonly name: string
  readonly file: string
}

export function entries(): readonly Entry[] {
  return Object.entries(ENTRIES).map(([entry, source]) => ({
    name: entry === 'index' ? 'bullmq-redlock' : `bullmq-redlock/${entry}`,
    file: join(ROOT, source),
  }))
}

export function compilerOptions(): ts.CompilerOptions {
  const { config } = ts.readConfigFile(join(ROOT, 'tsconfig.json'), (path) =>
    readFileSync(path, 'utf8'),
  ) as { readonly config: unknown }
  return ts.parseJsonConfigFileContent(config, ts.sys, ROOT).options
}

const parsed = new Map<string, ts.SourceFile | undefined>()

/** Reads each file once for all programs. */
export function sharedHost(options: ts.CompilerOptions): ts.CompilerHost {
  const host = ts.createCompilerHost(options)
  const read = host.getSourceFile.bind(host)
  host.getSourceFile = (name, ...rest) => {
    if (!parsed.has(name)) parsed.set(name, read(name, ...rest))
    return parsed.get(name)
  }
  return host
}

/** The entry points, and what they import. */
export function typesOfEntries(): ts.Program {
  const options = compilerOptions()
  const files = entries().map(({ file }) => file)
  return ts.createProgram(files, options, sharedHost(options))
}

/** All that the package exports, an entry after the other, each name once. */
export function exported(program: ts.Program = typesOfEntries()): readonly Exported[] {
  const checker = program.getTypeChecker()
  const seen = new Set<ts.Symbol>()
  return entries().flatMap(({ name, file }) => {
    const source = program.getSourceFile(file)
    const module = source && checker.getSymbolAtLocation(source)
    if (module === undefined) throw new Error(`${file} is not a module`)
    return checker.getExportsOfModule(module).flatMap((symbol) => {
      const isAlias = (symbol.flags & ts.SymbolFlags.Alias) !== 0
      const original = isAlias ? checker.getAliasedSymbol(symbol) : symbol
      if (seen.has(original)) return []
      seen.add(original)
      return [describe(checker, symbol.name, original, name)]
    })
  })
}

function describe(
  checker: ts.TypeChecker,
  name: string,
  symbol: ts.Symbol,
  entry: string,
): Exported {
  const [declaration] = symbol.declarations ?? []
  if (declaration === undefined) throw new Error(`${name} has no declaration`)
  return {
    ...{ name, entry, kind: kindOf(declaration), signature: signatureOf(checker, declaration) },
    file: relative(SRC, declaration.getSourceFile().fileName),
    comment: { ...commentOf(symbol, checker), ...constructorOf(checker, declaration) },
    members: membersOf(checker, symbol, declaration),
    mentions: mentionsOf(declaration),
  }
}

/** What a constructor throws is said of its class. */
function constructorOf(
  checker: ts.TypeChecker,
  node: ts.Declaration,
): Partial<Pick<Comment, 'throws'>> {
  const found = ts.isClassDeclaration(node) ? node.members.find(ts.isConstructorDeclaration) : node
  const signature =
    found !== undefined && ts.isConstructorDeclaration(found)
      ? checker.getSignatureFromDeclaration(found)
      : undefined
  return signature === undefined ? {} : { throws: commentOf(signature, checker).throws }
}

function kindOf(declaration: ts.Declaration): Kind {
  if (/errors\.ts$/.test(declaration.getSourceFile().fileName)) return 'Errors'
  return ts.isInterfaceDeclaration(declaration) || ts.isTypeAliasDeclaration(declaration)
    ? 'Types'
    : 'Classes and functions'
}

/** In the types of a public declaration; what a function's body uses is not among them. */
function mentionsOf(declaration: ts.Declaration): ReadonlySet<string> {
  const names = new Set<string>()
  const visit = (node: ts.Node): void => {
    if (ts.isBlock(node) || isHidden(node)) return
    if (ts.isIdentifier(node)) names.add(node.text)
    ts.forEachChild(node, visit)
  }
  visit(declaration)
  return names
}

function isHidden(node: ts.Node): boolean {
  if (ts.getJSDocTags(node).some(({ tagName }) => tagName.text === 'internal')) return true
  if (!ts.isClassElement(node)) return false
  if (node.name !== undefined && ts.isPrivateIdentifier(node.name)) return true
  const hidden = ts.ModifierFlags.Private | ts.ModifierFlags.Protected
  return (ts.getCombinedModifierFlags(node) & hidden) !== 0
}

function commentOf(symbol: ts.Symbol | ts.Signature, checker: ts.TypeChecker): Comment {
  const tags = symbol instanceof Object && 'getJsDocTags' in symbol ? tagsOf(symbol, checker) : []
  const texts = (name: string): readonly string[] =>
    tags.filter((tag) => tag.name === name).map(({ text }) => prose(textOf(text)))
  return {
    about: prose(textOf(symbol.getDocumentationComment(checker))),
    byDefault: texts('defaultValue').join(' '),
    returns: texts('returns').join(' '),
    throws: texts('throws'),
    examples: tags.filter(({ name }) => name === 'example').map(({ text }) => codeOf(textOf(text))),
  }
}

function tagsOf(
  symbol: ts.Symbol | ts.Signature,
  checker: ts.TypeChecker,
): readonly ts.JSDocTagInfo[] {
  return 'flags' in symbol ? symbol.getJsDocTags(checker) : symbol.getJsDocTags()
}

const textOf = (parts: ts.SymbolDisplayPart[] | undefined): string => ts.displayPartsToString(parts)

/** One paragraph; a list in a comment stays a list. */
function prose(text: string): string {
  return text
    .replaceAll(/\{@link ([^}\s]+)\s*\}/g, '`$1`')
    .replaceAll(/\n(?=- )/g, '\u0000')
    .replaceAll(/\s*\n\s*/g, ' ')
    .replaceAll('\u0000', '\n')
    .trim()
}

const codeOf = (text: string): string => /^```ts\n([^]*?)\n```\s*$/.exec(text.trim())?.[1] ?? ''

const oneLine = (node: ts.Node): string =>
  node
    .getText()
    .replaceAll(/\/\*\*[^]*?\*\//g, '')
    .replaceAll(/\/\/.*$/gm, '')
    .replaceAll(/\s+/g, ' ')
    .replaceAll(/([(<[]) /g, '$1')
    .replaceAll(/,? ([)>\]])/g, '$1')
    .replaceAll('=>', '⇒')
    .replaceAll(/,([)>\]])/g, '$1')
    .replaceAll('⇒', '=>')

function typeOf(
  checker: ts.TypeChecker,
  node: ts.Declaration & { readonly type?: ts.TypeNode | undefined },
): string {
  return node.type === undefined
    ? checker.typeToString(checker.getTypeAtLocation(node))
    : oneLine(node.type)
}

function callOf(checker: ts.TypeChecker, node: ts.SignatureDeclaration, arrow = ': '): string {
  const generics = node.typeParameters?.map(oneLine).join(', ')
  const parameters = node.parameters.map((parameter) => {
    const name = ts.isIdentifier(parameter.name) ? parameter.name.text : 'options'
    const isOptional = parameter.questionToken ?? parameter.initializer
    const rest = parameter.dotDotDotToken === undefined ? '' : '...'
    return `${rest}${name}${isOptional === undefined ? '' : '?'}: ${typeOf(checker, parameter)}`
  })
  const list = `${generics === undefined ? '' : `<${generics}>`}(${parameters.join(', ')})`
  if (ts.isConstructorDeclaration(node)) return list
  const signature = checker.getSignatureFromDeclaration(node)
  const returned =
    node.type === undefined && signature !== undefined
      ? checker.typeToString(signature.getReturnType())
      : node.type && oneLine(node.type)
  return `${list}${arrow}${returned ?? 'void'}`
}

function signatureOf(checker: ts.TypeChecker, node: ts.Declaration): string {
  if (ts.isFunctionDeclaration(node)) return `${node.name?.text ?? ''}${callOf(checker, node)}`
  if (ts.isVariableDeclaration(node)) return `${node.name.getText()}: ${typeOf(checker, node)}`
  if (ts.isTypeAliasDeclaration(node)) {
    return node.getText().replace(/^export /, '')
  }
  if (!ts.isClassDeclaration(node)) return ''
  if (/errors\.ts$/.test(node.getSourceFile().fileName)) return ''
  const constructors = node.members.filter(ts.isConstructorDeclaration)
  const name = node.name?.text ?? ''
  return constructors.map((each) => `new ${name}${callOf(checker, each)}`).join('\n')
}

/** Those of BullMQ, of `Error` and of an exported parent are described elsewhere. */
function membersOf(
  checker: ts.TypeChecker,
  symbol: ts.Symbol,
  declaration: ts.Declaration,
): readonly Member[] {
  if (!ts.isClassDeclaration(declaration) && !ts.isInterfaceDeclaration(declaration)) return []
  const type = checker.getDeclaredTypeOfSymbol(symbol)
  const calls = ts.isInterfaceDeclaration(declaration)
    ? declaration.members.filter(ts.isCallSignatureDeclaration)
    : []
  return [
    ...calls.flatMap((call) => {
      const signature = checker.getSignatureFromDeclaration(call)
      if (signature === undefined) return []
      const comment = commentOf(signature, checker)
      return [{ name: '', signature: callOf(checker, call), comment }]
    }),
    ...checker.getPropertiesOfType(type).flatMap((property) => {
      const own = (property.declarations ?? []).filter(
        (each) =>
          each.getSourceFile().fileName.startsWith(SRC) &&
          !isHidden(each) &&
          (each.parent === declaration || !isExported(each.parent)),
      )
      const signatures = own.flatMap((each) => memberSignature(checker, each))
      const name = own[0] === undefined ? '' : nameOf(own[0])
      if (signatures.length === 0 || UNSHOWN.has(name)) return []
      const comment = commentOf(property, checker)
      return [{ name, signature: signatures.join('\n'), comment }]
    }),
  ]
}

/** Parents that stand on the page themselves. These do not: what inherits from them does. */
const isExported = (node: ts.Node): boolean =>
  (ts.isClassDeclaration(node) || ts.isInterfaceDeclaration(node)) &&
  !['LockClient', 'HeldLease', 'CommonOptions', 'LockOptions', 'Refused'].includes(
    node.name?.text ?? '',
  )

const nameOf = (node: ts.Declaration): string =>
  'name' in node ? (node.name as ts.Node).getText() : ''

function memberSignature(checker: ts.TypeChecker, node: ts.Declaration): readonly string[] {
  const name = nameOf(node)
  if (ts.isMethodDeclaration(node)) {
    const overloads = node.body === undefined ? [] : [node]
    return overloads.map((each) => `${name}${callOf(checker, each)}`)
  }
  if (ts.isMethodSignature(node)) {
    return [`${name}${node.questionToken === undefined ? '' : '?'}${callOf(checker, node)}`]
  }
  if (ts.isGetAccessor(node)) return [`${name}: ${typeOf(checker, node)}`]
  if (ts.isPropertySignature(node) || ts.isPropertyDeclaration(node)) {
    const optional = node.questionToken === undefined ? '' : '?'
    const constant = ts.isPropertyDeclaration(node) && node.type === undefined && node.initializer
    return [`${name}${optional}: ${constant ? constant.getText() : typeOf(checker, node)}`]
  }
  return []
}

/** Names of the page in whose types another one stands. */
export function usersOf(name: string, all: readonly Exported[]): readonly string[] {
  return all.filter((each) => each.name !== name && each.mentions.has(name)).map((one) => one.name)
}

const sentence = (text: string): string => (/[.:;!?)]$/.test(text) ? text : `${text}.`)

function details({ byDefault, returns, throws }: Comment): readonly string[] {
  return [
    ...(returns === '' ? [] : [`_Returns_ ${sentence(returns)}`]),
    ...(byDefault === '' ? [] : [`_Default:_ ${sentence(byDefault)}`]),
    ...(throws.length === 0
      ? []
      : [`_Throws_ ${sentence(throws.map((each) => each.replace(/\.$/, '')).join('; '))}`]),
  ]
}

function memberLine({ signature, comment }: Member): string {
  const text = [comment.about, ...details(comment)].filter((part) => part !== '').join(' ')
  const signatures = signature.split('\n').map((each) => `\`${each}\``)
  const colon = text === '' ? '' : ': '
  const line = `${signatures.join(' · ')}${colon}${text}`
  const examples = comment.examples.map(fenced)
  return `- ${[line, ...examples].join('\n\n').replaceAll('\n', '\n  ')}`
}

const fenced = (code: string): string => `\`\`\`ts\n${code}\n\`\`\``

export async function page(all = exported()): Promise<string> {
  const anchors = new Map<string, string>()
  const taken = new Map<string, number>()
  const heading = (text: string): string => {
    const anchor = anchorOf(text)
    const before = taken.get(anchor) ?? 0
    taken.set(anchor, before + 1)
    return before === 0 ? anchor : `${anchor}-${before}`
  }
  const parts = entries().map(({ name }) => ({
    ...{ name, anchor: heading(name) },
    groups: KINDS.map((kind) => {
      const names = all.filter((each) => each.entry === name && each.kind === kind)
      const group = names.length === 0 ? '' : heading(`${kind} of ${name}`)
      for (const each of names) anchors.set(each.name, heading(each.name))
      return { kind, anchor: group, names }
    }).filter(({ names }) => names.length > 0),
  }))
  const link = (name: string): string => `[\`${name}\`](#${anchors.get(name) ?? ''})`
  const contents = parts.map(({ name, anchor, groups }) => {
    const found = groups.flatMap(({ kind, anchor: group, names }) =>
      kind === 'Classes and functions'
        ? names.map((each) => link(each.name))
        : [`[${kind.toLowerCase()}](#${group})`],
    )
    return `- [\`${name}\`](#${anchor}): ${found.join(' · ')}`
  })
  const one = (each: Exported): string => {
    const users = usersOf(each.name, all)
    return [
      `#### ${each.name}`,
      each.comment.about,
      each.signature === '' ? '' : fenced(each.signature),
      details(each.comment).join(' '),
      each.members.map(memberLine).join('\n'),
      ...each.comment.examples.map(fenced),
      users.length === 0 ? '' : `Used by ${users.map(link).join(' · ')}.`,
    ]
      .filter((part) => part !== '')
      .join('\n\n')
  }
  const sections = parts.map(({ name, groups }) =>
    [
      `## ${name}`,
      ...groups.map(({ kind, names }) =>
        [`### ${kind} of ${name}`, ...names.map(one)].join('\n\n'),
      ),
    ].join('\n\n'),
  )
  const head =
    '# API\n\nEvery name that the package exports, from its doc comment (`npm run docs:api`; a test compares, and compiles the examples). ' +
    'Durations are milliseconds. A bad option is a `TypeError` that names it. All other errors that this package throws extend `RedlockError` and have a `code`. ' +
    "What `LockedWorker` and `LockedQueue` inherit is BullMQ's ([compatibility.md](compatibility.md)). Options in tables: [configuration.md](configuration.md).\n"
  return markdown([head, contents.join('\n'), ...sections].join('\n\n'), PAGE)
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) writeFileSync(PAGE, await page())
