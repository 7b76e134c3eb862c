/**
 * Small changes to every decision of a source, as a mutation tester makes them: another operator,
 * a condition that always or never holds, a statement that is left out; in TypeScript and in Lua.
 */
import ts from 'typescript'
import { HARMLESS } from './harmless.ts'

export interface Change {
  readonly line: number
  /** Where the text is that is replaced. */
  readonly from: number
  readonly to: number
  readonly replace: string
  readonly isLua: boolean
}

const OPERATORS: Readonly<Record<string, readonly string[]>> = {
  ...{ '<': ['<=', '>='], '<=': ['<', '>'], '>': ['>=', '<='], '>=': ['>', '<'] },
  ...{ '===': ['!=='], '!==': ['==='], '&&': ['||'], '||': ['&&'], '??': ['&&'] },
  ...{ '+': ['-'], '-': ['+'], '*': ['/'], '/': ['*'] },
}
const ROUNDINGS: Readonly<Record<string, string>> = {
  ...{ 'Math.min': 'Math.max', 'Math.max': 'Math.min' },
  ...{ 'Math.floor': 'Math.ceil', 'Math.ceil': 'Math.floor' },
}
/** The longer ones first: each place is changed once. */
const LUA: readonly (readonly [find: RegExp, replace: string])[] = [
  [/==/g, '~='],
  [/~=/g, '=='],
  [/<=/g, '<'],
  [/>=/g, '>'],
  [/(?<![-=<>~])<(?![=<])/g, '<='],
  [/(?<![-=<>~])>(?![=>])/g, '>='],
  [/ and /g, ' or '],
  [/ or /g, ' and '],
  [/ \+ /g, ' - '],
  [/ - /g, ' + '],
  [/\bnot /g, ''],
  [/^\s*redis\.call\(.*\)\s*$/g, ''],
]

export function changesOf(file: string, text: string): readonly Change[] {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true)
  const changes: Change[] = []
  const add = (from: number, to: number, replace: string, isLua = false): void => {
    const line = source.getLineAndCharacterOfPosition(from).line + 1
    changes.push({ line, from, to, replace, isLua })
  }
  const visit = (node: ts.Node): void => {
    if (ts.isTypeNode(node) || ts.isImportDeclaration(node)) return
    for (const [place, replace] of replacements(node))
      add(place.getStart(), place.getEnd(), replace)
    if (ts.isTemplateLiteral(node)) luaChanges(node, text, add)
    ts.forEachChild(node, visit)
  }
  visit(source)
  return changes
}

function replacements(node: ts.Node): readonly (readonly [place: ts.Node, replace: string])[] {
  if (ts.isBinaryExpression(node)) {
    const { operatorToken: operator } = node
    // Texts are only joined.
    const isText = operator.getText() === '+' && /['"`]/.test(node.getText())
    return isText ? [] : (OPERATORS[operator.getText()] ?? []).map((other) => [operator, other])
  }
  if (ts.isIfStatement(node)) return always(node.expression)
  if (ts.isConditionalExpression(node)) return always(node.condition)
  if (node.kind === ts.SyntaxKind.TrueKeyword) return [[node, 'false']]
  if (node.kind === ts.SyntaxKind.FalseKeyword) return [[node, 'true']]
  if (ts.isExpressionStatement(node)) {
    return node.getText().startsWith('super') ? [] : [[node, ';']]
  }
  if (ts.isCallExpression(node)) {
    const other = ROUNDINGS[node.expression.getText()]
    return other === undefined ? [] : [[node.expression, other]]
  }
  return []
}

const always = (condition: ts.Expression): readonly (readonly [ts.Node, string])[] => [
  [condition, '(true as boolean)'],
  [condition, '(false as boolean)'],
]

function luaChanges(
  node: ts.TemplateLiteral,
  text: string,
  add: (from: number, to: number, replace: string, isLua: boolean) => void,
): void {
  if (!/redis\.|\bthen\b|\blocal /.test(node.getText())) return
  let at = node.getStart() + 1
  for (const line of text.slice(at, node.getEnd() - 1).split('\n')) {
    // Neither comments nor texts; each keeps its length.
    const code = line.replace(/--.*$|'[^']*'|"[^"]*"|\$\{[^}]*\}/g, (found) =>
      '#'.repeat(found.length),
    )
    for (const [find, replace] of LUA) {
      for (const { index, 0: found } of code.matchAll(find)) {
        add(at + index, at + index + found.length, replace, true)
      }
    }
    at += line.length + 1
  }
}

interface Found extends Change {
  readonly file: string
  readonly found: string
}

/** Why a change breaks no rule, where that is known. */
export function whyHarmless(change: Found, text: string): string | undefined {
  return HARMLESS.find(
    ({ file, code, changes }) =>
      file === change.file &&
      text.indexOf(code) <= change.from &&
      change.to <= text.indexOf(code) + code.length &&
      changes.some(([found, replace]) => found === change.found && replace === change.replace),
  )?.why
}
