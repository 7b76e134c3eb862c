import { lineScripts } from '../src/line/line-scripts.ts'
const s = lineScripts()
const name = process.argv[2] ?? 'finish'
console.log(((s as any)[name] ?? s.composed.get(name)).lua)
