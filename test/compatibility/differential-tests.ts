/** The titles of all differential tests, and of what compiles, in the files beside this one. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import ts from 'typescript'
import type { Verdict } from './rows.ts'

export interface DifferentialTest {
  readonly title: string
  readonly file: string
  /** The verdict of the rows that may name it. */
  readonly verdict: Verdict
}

/** What has no counterpart in BullMQ (`ours`) is a difference. */
const VERDICTS: Readonly<Record<string, Verdict>> = {
  compiles: 'same',
  same: 'same',
  sameAlone: 'same',
  differsAlone: 'differs',
  sameAndAsSoon: 'same',
  differs: 'differs',
  ours: 'differs',
  refused: 'refused',
}

export function differentialTests(): readonly DifferentialTest[] {
  const files = readdirSync(import.meta.dirname).filter((name) =>
    /(\.test|^drop-in-types)\.ts$/.test(name),
  )
  return files.flatMap((file) => {
    const text = readFileSync(join(import.meta.dirname, file), 'utf8')
    const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest)
    return source.statements.flatMap((statement) => {
      if (!ts.isExpressionStatement(statement)) return []
      const { expression: call } = statement
      if (!ts.isCallExpression(call) || !ts.isIdentifier(call.expression)) return []
      const verdict = VERDICTS[call.expression.text]
      const [title] = call.arguments
      if (verdict === undefined || title === undefined) return []
      if (!ts.isStringLiteralLike(title)) throw new Error(`A title in ${file} is no literal`)
      return [{ title: title.text, file, verdict }]
    })
  })
}
