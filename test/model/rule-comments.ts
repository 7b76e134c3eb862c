/**
 * Rules of the source. A comment `// rule: name`, or `-- rule: name` in Lua, stands above the
 * statement that keeps the rule. A mutant names the rule, so the statement may move, and its text
 * may change.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import ts from 'typescript'

/** A statement that keeps a rule. */
export interface RulePlace {
  readonly rule: string
  /** From the root of the project. */
  readonly file: string
  /** Where the statement begins in the text of the file, and where it ends. */
  readonly from: number
  readonly to: number
}

/**
 * How a statement is changed: it is left out, its condition always or never holds, or the first
 * occurrence of a text in it is replaced.
 */
export type Change = 'removed' | 'always' | 'never' | readonly [find: string, replace: string]

const COMMENT = /^[ \t]*(\/\/|--) rule: ([a-z\d-]+)\n/gm

export function rulePlaces(root: string): readonly RulePlace[] {
  const files = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
  return files
    .filter((name) => /\.(ts|lua)$/.test(name))
    .flatMap((name) => placesIn(`src/${name}`, readFileSync(join(root, 'src', name), 'utf8')))
}

export function placesIn(file: string, text: string): readonly RulePlace[] {
  let source: ts.SourceFile | undefined
  return [...text.matchAll(COMMENT)].map(({ 0: comment, 1: mark, 2: rule = '', index }) => {
    const next = index + comment.length
    const from = next + text.slice(next).search(/\S/)
    if (mark === '--') return { rule, file, from, to: endOfLua(text, from) }
    return { rule, file, from, to: endOf((source ??= parsed(text)), from) }
  })
}

/** @throws Error where the change changes nothing. */
export function changed(text: string, { rule, from, to }: RulePlace, change: Change): string {
  const statement = text.slice(from, to)
  const result = change === 'removed' ? '' : edited(statement, change)
  if (result === statement) throw new Error(`The change does not fit \`${rule}\`:\n${statement}`)
  return text.slice(0, from) + result + text.slice(to)
}

function edited(statement: string, change: Exclude<Change, 'removed'>): string {
  if (typeof change !== 'string') return statement.replace(change[0], () => change[1])
  const holds = change === 'always' ? 'true' : 'false'
  if (/^if \(/.test(statement)) return `if (${holds} as boolean) ${consequence(statement)}`
  return statement.replace(/^if [^]*? then/, `if ${holds} then`)
}

function parsed(text: string): ts.SourceFile {
  return ts.createSourceFile('source.ts', text, ts.ScriptTarget.Latest, true)
}

function consequence(statement: string): string {
  const [first] = parsed(statement).statements
  return first !== undefined && ts.isIfStatement(first)
    ? statement.slice(first.thenStatement.getStart())
    : statement
}

/** Of the largest piece of TypeScript that begins there and is not a list of such pieces. */
function endOf(source: ts.SourceFile, from: number): number {
  let end = from
  const visit = (node: ts.Node): void => {
    if (end > from || node.end <= from) return
    if (node.getStart(source) === from && !ts.isSourceFile(node)) end = node.end
    else ts.forEachChild(node, visit)
  }
  visit(source)
  return end
}

/** Of the lines until all blocks and brackets that they open are closed. */
function endOfLua(text: string, from: number): number {
  let at = from
  let open = 0
  for (const line of text.slice(from).split('\n')) {
    if (at > from && open <= 0 && !/^\s*(and|or)\b/.test(line)) break
    const code = line.replace(/--.*$|'[^']*'|"[^"]*"/g, '')
    open += count(code, /\b(function|if|for|while|repeat)\b|[({[]/g)
    open -= count(code, /\b(end|until)\b|[)}\]]/g)
    at += line.length + 1
  }
  return at - 1
}

const count = (text: string, what: RegExp): number => [...text.matchAll(what)].length
