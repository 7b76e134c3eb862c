// Ir of the preamble of the finish script, cut at given points.
import { spawn, execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, copyFileSync } from 'node:fs'
import { Redis } from 'ioredis'
import { lineScripts } from '../src/line/line-scripts.ts'
const port = 20000 + Math.floor(Math.random() * 20000)
const dir = mkdtempSync('/tmp/micro-')
const proc = spawn('valgrind', ['--tool=callgrind', '--instr-atstart=no', `--callgrind-out-file=${dir}/out`, 'redis-server', '--port', String(port), '--dir', dir, '--save', '', '--appendonly', 'no', '--bind', '127.0.0.1'], { stdio: 'ignore' })
await new Promise((r) => setTimeout(r, 15000))
const admin = new Redis(port)
const text = lineScripts().finish.lua
const lines = text.split('\n')
const keys = Array.from({ length: lineScripts().finish.numberOfKeys }, (_, i) => `bull:test-queue:key${i}`)
const SIZE = Number(process.env.SIZE ?? 1)
const ours = JSON.stringify({ base: 'bull:test-queue:', slots: 1, opts: { keepJobs: { count: 0 }, attempts: 1, lockDuration: '30000', maxMetricsSize: '' } })
const rest: string[] = ['1795666842865']
for (let i = 0; i < SIZE; i++) rest.push('123', 'abcdef-1223-2333', '1795666842865', '["c:12"]', '3', '"r"', '{}')
console.log('text', text.length, 'lines', lines.length)
let dumps = 0
async function measure(lua: string): Promise<number> {
  let sha = ''
  try { sha = (await admin.script('LOAD', lua)) as string } catch { return NaN }
  const n = Number(process.env.N ?? 200)
  const args = [...keys, ...rest, ours] as string[]
  for (let i = 0; i < 20; i++) await admin.evalsha(sha, keys.length, ...args)
  execFileSync('callgrind_control', ['-i', 'on', String(proc.pid)], { stdio: 'ignore' })
  for (let i = 0; i < n; i++) await admin.evalsha(sha, keys.length, ...args)
  execFileSync('callgrind_control', ['-i', 'off', String(proc.pid)], { stdio: 'ignore' })
  execFileSync('callgrind_control', ['-d', String(proc.pid)], { stdio: 'ignore' })
  await new Promise((r) => setTimeout(r, 200))
  dumps++
  const out = readFileSync(`${dir}/out.${dumps}`, 'utf8')
  copyFileSync(`${dir}/out.${dumps}`, `/tmp/cut.${dumps}`)
  return Math.round(Number(/^totals: (\d+)/m.exec(out)![1]) / n)
}
const cut = (at: number) => [...lines.slice(0, at), 'do return 1 end', ...lines.slice(at)].join('\n')
const points: [string, number][] = [['start', 0]]
const find = (re: RegExp, from = 0) => lines.findIndex((l, i) => i >= from && re.test(l))
const add = (name: string, re: RegExp) => { const i = find(re); if (i < 0) console.log('no', name); else points.push([name, i]) }
add('bullmqPromote made', /^local function bullmqWith/)
add('theirs', /^local theirs/)

points.push(['after decode', find(/^local theirs/) + 1])
add('keys made', /^local MARK = /)
add('line made to limitRules', /^local limitRules/)
add('NAMES', /^local NAMES/)
add('line made', /^local upNext, isTaken/)
add('turn made', /^local function unpacked/)
add('functions made', /^local function fetchSleeping/)
add('before bullmq', /^local function bullmq\(/)
add('finish made', /^local replies = together/)
if (process.env.FINE) { const [a, b] = process.env.FINE.split('-').map(Number); points.length = 0; let depth = 0; for (let i = a!; i <= b!; i++) { const l = lines[i]!; if (/^(local|function|--|[a-zA-Z.]+ = )/.test(l) && depth === 0) points.push([l.slice(0, 50), i]); const opens = (l.match(/\b(function|if|do)\b/g) ?? []).length, ends = (l.match(/\bend\b/g) ?? []).length; depth += opens - ends } }
let before = 0
for (const [name, at] of points) { const now = await measure(cut(at)); console.log(String(now - before).padStart(7), now, at, 'before', name); before = now }
proc.kill(); process.exit(0)
