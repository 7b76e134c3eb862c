/**
 * `npm run lint:lua`: luacheck over every Lua script as it runs, with the files that it includes.
 * A file may define more than one script needs, so an unused name of an included file is no fault
 * unless no file uses it.
 */
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { BULLMQ_FUNCTIONS } from '../src/line/bullmq/composed-script.ts'
import { ADDS_CALL } from '../src/line/line-scripts.ts'
import { findProgram } from './find-program.ts'

const INCLUDE = /^ *--- @include "([\w/-]+)"$/
const MODULES = /^--- @modules (.*)$/
const DEFINED = /^local function (\w+)/gm
/** Where BullMQ's functions and its script stand in ours. */
const BULLMQ = /^--- @bullmq (functions|script)(?:, with (.*))?$/
const FUNCTIONS = [...Object.keys(BULLMQ_FUNCTIONS), ...ADDS_CALL]

interface Line {
  readonly file: string
  readonly number: number
  readonly text: string
}

const paths = readdirSync('src', { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.lua'))
  .map((path) => join('src', path))
  .sort()

/** Included files, whole or in part of a script, by path. */
const included = new Set<string>()

function linesOf(file: string): readonly Line[] {
  const texts = readFileSync(file, 'utf8').split('\n')
  return texts.map((text, index) => ({ file, number: index + 1, text }))
}

function expanded(file: string): readonly Line[] {
  return linesOf(file).flatMap((line) => {
    const mark = (text: string): Line => ({ ...line, text })
    const [, bullmq, replaced = ''] = BULLMQ.exec(line.text) ?? []
    if (bullmq === 'functions') {
      const globals = FUNCTIONS.map((each) => `-- luacheck: globals ${each}`)
      return [...globals, 'local _ = rcall'].map(mark)
    }
    if (bullmq === 'script') {
      const ours = replaced.replace(/ for \w+/g, '')
      return [mark(`local function bullmq() return ${ours} end`)]
    }
    const [, modules] = MODULES.exec(line.text) ?? []
    const [, name] = INCLUDE.exec(line.text) ?? []
    if (modules === undefined && name === undefined) return [line]
    const lines = (modules?.split(' ') ?? [name ?? '']).map((each) => {
      const path = join(each.includes('/') ? 'src' : dirname(file), `${each}.lua`)
      included.add(path)
      const text = [mark('-- luacheck: push ignore 211 241 311'), ...expanded(path)]
      return [...text, mark('-- luacheck: pop')]
    })
    if (modules === undefined) return lines.flat()
    const made = lines.flatMap((module) => [mark('if which then'), ...module, mark('end')])
    return [mark('function rules(which)'), ...made, mark('end')]
  })
}

function check(luacheck: string, lines: readonly Line[]): readonly string[] {
  const input = lines.map(({ text }) => text).join('\n')
  const args = ['-', '--config', '.luacheckrc', '--formatter', 'plain', '--codes']
  const { stdout, stderr, status } = spawnSync(luacheck, args, { input, encoding: 'utf8' })
  if (status === 0) return []
  const found = stdout.split('\n').flatMap((said) => {
    const [, number, rest] = /^stdin:(\d+):\d+: (.*)$/.exec(said) ?? []
    const line = lines[Number(number) - 1]
    return line === undefined
      ? []
      : [`${line.file}:${line.number}: ${(rest ?? '').replace(/ on line \d+$/, '')}`]
  })
  return found.length > 0 ? found : [`luacheck failed: ${stdout}${stderr}`]
}

function unused(): readonly string[] {
  const texts = paths.map((path) => readFileSync(path, 'utf8')).join('\n')
  return [...included].flatMap((path) =>
    [...readFileSync(path, 'utf8').matchAll(DEFINED)].flatMap(([, name = '']) =>
      [...texts.matchAll(new RegExp(`\\b${name}\\b`, 'g'))].length > 1
        ? []
        : [`${path}: nothing uses ${name}`],
    ),
  )
}

const luacheck = findProgram('luacheck')
if (luacheck === undefined) {
  console.log('lint:lua: luacheck is not installed: apt-get install lua-check (skipped)')
} else {
  const scripts = paths.map((path) => ({ path, lines: expanded(path) }))
  const own = scripts.filter(({ path }) => !included.has(path))
  // A file that several scripts include is told of once.
  const faults = new Set([...own.flatMap(({ lines }) => check(luacheck, lines)), ...unused()])
  for (const fault of faults) console.error(fault)
  const folders = new Set(paths.map((path) => basename(dirname(dirname(path)))))
  console.log(
    `lint:lua: ${own.length} scripts of ${[...folders].join(', ')}, ${faults.size} faults`,
  )
  if (faults.size > 0) process.exitCode = 1
}
