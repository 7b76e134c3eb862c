import { spawn, execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync } from 'node:fs'
import { Redis } from 'ioredis'
const port = 20000 + Math.floor(Math.random() * 20000)
const dir = mkdtempSync('/tmp/micro-')
const proc = spawn('valgrind', ['--tool=callgrind', '--instr-atstart=no', `--callgrind-out-file=${dir}/out`, 'redis-server', '--port', String(port), '--dir', dir, '--save', '', '--appendonly', 'no', '--bind', '127.0.0.1'], { stdio: 'ignore' })
await new Promise((r) => setTimeout(r, 5000))
const admin = new Redis(port)
let dumps = 0
async function measure(lua: string): Promise<number> {
  const sha = (await admin.script('LOAD', lua)) as string
  const n = 500
  for (let i = 0; i < 60; i++) await admin.evalsha(sha, 0)
  execFileSync('callgrind_control', ['-i', 'on', String(proc.pid)], { stdio: 'ignore' })
  for (let i = 0; i < n; i++) await admin.evalsha(sha, 0)
  execFileSync('callgrind_control', ['-i', 'off', String(proc.pid)], { stdio: 'ignore' })
  execFileSync('callgrind_control', ['-d', String(proc.pid)], { stdio: 'ignore' })
  await new Promise((r) => setTimeout(r, 200))
  dumps++
  return Math.round(Number(/^totals: (\d+)/m.exec(readFileSync(`${dir}/out.${dumps}`, 'utf8'))![1]) / n)
}
const T: Record<string, string> = {
  empty: 'return 1',
  'locals 30': Array.from({ length: 30 }, (_, i) => `local a${i} = ${i}`).join('\n') + '\nreturn 1',
  '20 closures no upvalue': Array.from({ length: 20 }, (_, i) => `local function f${i}() return 1 end`).join('\n') + '\nreturn 1',
  '20 closures, 1 shared upvalue': 'local a = 1\n' + Array.from({ length: 20 }, (_, i) => `local function f${i}() return a end`).join('\n') + '\nreturn 1',
  '20 closures, each capture previous': 'local f = 1\n' + Array.from({ length: 20 }, (_, i) => `local function f${i}() return ${i ? 'f' + (i - 1) : 1} end`).join('\n') + '\nreturn 1',
  '20 closures, 3 upvalues of 20 captured': Array.from({ length: 20 }, (_, i) => `local a${i} = ${i}`).join('\n') + '\n' + Array.from({ length: 20 }, (_, i) => `local function f${i}() return a${i} + a${(i * 7) % 20} + a${(i * 3) % 20} end`).join('\n') + '\nreturn 1',
  'same inside function': 'local function all()\n' + Array.from({ length: 20 }, (_, i) => `local a${i} = ${i}`).join('\n') + '\n' + Array.from({ length: 20 }, (_, i) => `local function f${i}() return a${i} + a${(i * 7) % 20} + a${(i * 3) % 20} end`).join('\n') + '\nend\nall()\nreturn 1',
  'outer upvalues': Array.from({ length: 20 }, (_, i) => `local a${i} = ${i}`).join('\n') + '\nlocal function all()\n' + Array.from({ length: 20 }, (_, i) => `local function f${i}() return a${i} + a${(i * 7) % 20} + a${(i * 3) % 20} end`).join('\n') + '\nend\nall()\nreturn 1',
  'table of 20 functions, no upvalue': 'local t = {' + Array.from({ length: 20 }, (_, i) => `f${i} = function() return 1 end`).join(', ') + '}\nreturn 1',
  'one table': 'local t = {}\nreturn 1',
  'one table 13': 'local t = {' + Array.from({ length: 13 }, (_, i) => `f${i} = ${i}`).join(', ') + '}\nreturn 1',
  'setmetatable': 'local t = setmetatable({}, {__index = function() return 1 end})\nreturn 1',
  'concat': 'local t = KEYS\nlocal a = "x" local b = a .. "yy"\nreturn 1',
}
let base = 0
for (const [k, v] of Object.entries(T)) { const x = await measure(v); base ||= x; console.log(k.padEnd(40), x - base) }
proc.kill(); process.exit(0)
