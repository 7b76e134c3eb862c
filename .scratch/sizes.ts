import { lineScripts } from '../src/line/line-scripts.ts'
const s = lineScripts(); const { composed, ...others } = s as any
let total = 0
for (const x of [...composed.values(), ...Object.values(others)] as any[]) { total += x.lua.length; console.log(x.lua.length, x.command) }
console.log(total)
