/**
 * docs/tutorial.md in an empty folder: each command runs as it stands, on two servers with other
 * ports, and its output is compared. Long numbers, times and names of processes may differ.
 */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { startServer } from '../../src/testing/index.ts'
import { examplesOf, packedApp, ROOT, type PackedApp } from './packed-app.ts'

vi.setConfig({ testTimeout: 240_000, hookTimeout: 300_000 })

const PAGE = 'docs/tutorial.md'
const END = '# end of a block'

interface Block {
  readonly commands: string
  readonly output: string
}

/** Commands, each with the output that the page shows next. */
function blocks(): readonly Block[] {
  const text = readFileSync(join(ROOT, PAGE), 'utf8')
  const found = text.matchAll(/^```sh\n([^]*?)^```\n(?:\n```text\n([^]*?)^```)?/gm)
  return [...found].map(([, commands = '', output = '']) => ({ commands, output }))
}

/** Equal up to what differs between two runs. */
function patternOf(output: string): RegExp {
  const escaped = output.trim().replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`)
  const pattern = escaped
    .replaceAll(/\S+:\d+ \\\(\w+…\\\)/g, String.raw`\S+:\d+ \(\w+…\)`) // A holder.
    .replaceAll(/\d{4}-\S+Z/g, String.raw`\S+Z`) // A time.
    .replaceAll(/127\\\.0\\\.0\\\.1:\d+/g, String.raw`127\.0\.0\.1:\d+`)
    .replaceAll(/\d{16}/g, String.raw`\d{16}`) // A fencing token.
    .replaceAll(/\d+\\\.\d+ s/g, String.raw`\d+(\.\d+)? m?s`)
    .replaceAll(/[ \n]+/g, String.raw`\s+`)
  return new RegExp(`^${pattern}$`)
}

let app: PackedApp | undefined
let shell: ChildProcess | undefined
let said = ''

/** What bash says where it notices the end of a process before `wait` does. */
const NOTICE = /^bash: line \d+: +\d+ Killed .*\n/m

/** In one shell, so that variables and background processes last. */
async function run(commands: string): Promise<string> {
  said = ''
  shell?.stdin?.write(`${commands}\necho '${END}'\n`)
  await vi.waitUntil(() => said.includes(END), { timeout: 120_000, interval: 20 })
  return said.replace(END, '').replace(NOTICE, '').trim()
}

/** Two that were free a moment ago. */
async function freePorts(): Promise<readonly [number, number]> {
  const servers = await Promise.all([startServer(), startServer()])
  await Promise.all(servers.map((server) => server.close()))
  return [servers[0].port, servers[1].port]
}

beforeAll(() => {
  app = packedApp()
  for (const [name, code] of examplesOf(PAGE)) writeFileSync(app.path(name), code)
  const { PATH, HOME } = process.env
  // A process group, so that nothing that it has started outlives it.
  shell = spawn('bash', [], {
    cwd: app.path(),
    env: { PATH, HOME, TMPDIR: app.path() },
    detached: true,
  })
  const hear = (data: Buffer): void => {
    said += data.toString()
  }
  shell.stdout?.on('data', hear)
  shell.stderr?.on('data', hear)
})

afterAll(async () => {
  if (shell?.pid !== undefined) {
    const ended = once(shell, 'exit')
    process.kill(-shell.pid, 'SIGKILL')
    await ended
  }
  app?.remove()
})

it('the page contains the programs and commands that run here', () => {
  expect([...examplesOf(PAGE).keys()]).toEqual(['worker.js', 'add.js'])
  expect(blocks().map(({ output }) => output !== '')).toEqual(
    [false, true, true, true, true, true, true, false], // The folder and the end say nothing.
  )
})

/** The page needs both; a machine that runs servers in containers may have neither. */
const isMissing = ['redis-server', 'redis-cli'].some(
  (program) => spawnSync(program, ['--version']).error !== undefined,
)

it.skipIf(isMissing)(
  'every command gives the output of the page, and the killed job is recovered in order',
  async () => {
    const [install, ...rest] = blocks()
    expect(install?.commands).toContain('npm install') // The application has done so.
    const [queue, master] = await freePorts()
    const outputs: string[] = []
    for (const { commands, output } of rest) {
      const here = commands.replaceAll('7101', `${queue}`).replaceAll('7102', `${master}`)
      const real = await run(here)
      expect(real, commands).toMatch(patternOf(output))
      outputs.push(real)
    }
    const tokens = outputs
      .flatMap((output) => [...output.matchAll(/^customer 42 pays \d+, token (\d+)$/gm)])
      .map(([, token]) => Number(token))
    expect(tokens).toHaveLength(4)
    expect(tokens).toEqual([...new Set(tokens)].sort((a, b) => a - b))
  },
)
