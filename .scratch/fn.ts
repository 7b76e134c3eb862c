import { bullmqScripts } from '../src/line/bullmq/bullmq-scripts.ts'
const COMMENT = /^ *--(?:\[\[[^]*?\]\]|.*) *\n/gm
const FUNCTION = /^local (?:rcall = redis\.call$|function (\w+)[^]*?^end$)/gm
const seen = new Map<string, Map<string, string[]>>()
for (const group of [['addStandardJob', 'addPrioritizedJob', 'addDelayedJob', 'addParentJob'], ['moveToActive', 'moveToDelayed', 'moveToFinished']]) {
  const seen = new Map<string, Map<string, string[]>>()
  for (const n of group) {
    const { lua, numberOfKeys } = bullmqScripts().get(n)!
    const text = lua.replace(COMMENT, '')
    let body = text.length
    text.replace(FUNCTION, (t, name) => { body -= t.length; const m = seen.get(name ?? '') ?? new Map(); seen.set(name ?? '', m); const norm = t.replace(/\s+/g, ' '); m.set(norm, [...(m.get(norm) ?? []), n]); return '' })
    console.log(n, numberOfKeys, text.length, 'body', body)
  }
  let union = 0
  for (const [name, m] of seen) { union += [...m.keys()][0]!.length; if (m.size > 1) console.log('differs', name, [...m.values()].map((v) => v.join())) }
  console.log('union', union)
}
