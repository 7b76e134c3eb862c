import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { noPostgres } from '../../scripts/lock-servers/postgres-server.ts'
import { startServer } from '../../src/testing/index.ts'
import { DIRECTORY_PREFIX, takeDirectory } from '../../src/testing/reaper.ts'
import { findServerBinary } from '../../src/testing/choose-backend.ts'
import { watchLeaks, type LeakWatch } from '../support/leaks.ts'
import { ping } from '../support/ask.ts'
import { nodeArgs } from '../support/programs.ts'

const HOLDER = join(import.meta.dirname, 'fleet-holder-child.ts')
const FROZEN_POSTGRES = join(import.meta.dirname, 'frozen-postgres-child.ts')
const GONE_LIMIT = { timeout: 10_000, interval: 20 }

let leaks: LeakWatch
const search = await findServerBinary()
if (search.status === 'missing') console.warn('No test of the reaper: no redis-server on the PATH')
const itReaps = it.skipIf(search.status === 'missing')
let holder: ChildProcess | undefined

beforeEach(() => {
  leaks = watchLeaks()
})

afterEach(async () => {
  holder?.kill('SIGKILL')
  holder = undefined
  await leaks.assertNone()
})

/** Starts the program; the result gives its lines. Its own process group is like a terminal's. */
function hold(ending: string, program = HOLDER): AsyncIterator<string, undefined> {
  holder = spawn(process.execPath, [...nodeArgs(program), ending], {
    detached: true,
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  if (holder.stdout === null) throw new Error('Expected a pipe')
  return createInterface(holder.stdout)[Symbol.asyncIterator]()
}

function holderPid(): number {
  if (holder?.pid === undefined) throw new Error('Expected the program to run')
  return holder.pid
}

function directories(pid: number): readonly string[] {
  return readdirSync(tmpdir())
    .filter((name) => name.startsWith(`${DIRECTORY_PREFIX}${pid}-`))
    .map((name) => join(tmpdir(), name))
}

/** Who works in such a directory, renamed and removed ones included. Linux only. */
function residents(pid: number): readonly string[] {
  if (!existsSync('/proc/self/cwd')) return []
  return readdirSync('/proc').filter((entry) => {
    if (!/^\d+$/.test(entry)) return false
    try {
      return readlinkSync(`/proc/${entry}/cwd`).includes(`${DIRECTORY_PREFIX}${pid}-`)
    } catch {
      // It ended while we looked, or belongs to somebody else.
      return false
    }
  })
}

async function isGone(url: string): Promise<boolean> {
  return ping(url).then(
    () => false,
    () => true,
  )
}

describe('when the process that started them ends, no server and no directory is left', () => {
  const endings = {
    'by kill -9': () => process.kill(holderPid(), 'SIGKILL'),
    'by SIGTERM': () => process.kill(holderPid(), 'SIGTERM'),
    'by Ctrl-C in its terminal': () => process.kill(-holderPid(), 'SIGINT'),
    'because its terminal is closed': () => process.kill(-holderPid(), 'SIGHUP'),
    'by an uncaught exception': 'throw',
    'by process.exit()': 'exit',
  }

  itReaps.each(Object.entries(endings))('%s', async (_, ending) => {
    const lines = hold(typeof ending === 'string' ? ending : 'wait')
    const pid = holderPid()
    await lines.next()
    const urls = JSON.parse((await lines.next()).value ?? '[]') as readonly string[]
    expect(urls).toHaveLength(3)
    if (typeof ending !== 'string') {
      expect(directories(pid)).toHaveLength(1)
      expect(residents(pid)).not.toEqual([])
      ending()
    }
    await vi.waitFor(async () => {
      expect(await Promise.all(urls.map(isGone))).toEqual([true, true, true])
      expect(directories(pid)).toEqual([])
      expect(residents(pid)).toEqual([])
    }, GONE_LIMIT)
  })

  itReaps('in the middle of starting them', async () => {
    const lines = hold('wait')
    const pid = holderPid()
    await lines.next()
    await vi.waitFor(() => {
      expect(directories(pid)).toHaveLength(1)
    }, GONE_LIMIT)
    process.kill(pid, 'SIGKILL')
    await vi.waitFor(() => {
      expect(directories(pid)).toEqual([])
      expect(residents(pid)).toEqual([])
    }, GONE_LIMIT)
  })
})

it.skipIf(noPostgres)('children of a server that stand still end with it', async () => {
  const lines = hold('wait', FROZEN_POSTGRES)
  const pid = holderPid()
  expect((await lines.next()).value).toBe('frozen')
  expect(residents(pid).length).toBeGreaterThan(1)
  process.kill(pid, 'SIGKILL')
  await vi.waitFor(() => {
    expect(residents(pid)).toEqual([])
  }, GONE_LIMIT)
})

itReaps('lets a program that handles Ctrl-C end its servers itself', async () => {
  const lines = hold('stay')
  const pid = holderPid()
  const [, urls] = [await lines.next(), await lines.next()]
  expect((await lines.next()).value).toBe('waiting')
  process.kill(-pid, 'SIGINT')
  expect((await lines.next()).value).toBe('still here')
  const [, second, queue] = JSON.parse(urls.value ?? '[]') as readonly string[]
  expect(await Promise.all([second, queue].map((url) => ping(url ?? '')))).toEqual(['PONG', 'PONG'])
  process.kill(pid, 'SIGKILL')
  await vi.waitFor(() => {
    expect(directories(pid)).toEqual([])
  }, GONE_LIMIT)
})

itReaps('lets a program end as soon as its servers are closed', async () => {
  const lines = hold('close')
  const said = [await lines.next(), await lines.next(), await lines.next()]
  expect(said[2]?.value).toBe('0 timers')
})

itReaps('ends with the last server, and starts again with the next', async () => {
  const own = watchLeaks()
  const first = await startServer({ backend: 'processes' })
  const second = await startServer({ backend: 'processes' })
  await first.close()
  await second.close()
  await own.assertNone()
  await (await startServer({ backend: 'processes' })).close()
})

it('removes a directory into which a process still writes for a while', async () => {
  const directory = takeDirectory('busy')
  const write = 'i=0; while [ $i -lt 10000 ]; do i=$((i + 1)); echo >"$0/$i"; done'
  const writer = spawn('/bin/sh', ['-c', write, directory.path], { stdio: 'ignore' })
  const ended = once(writer, 'exit')
  await vi.waitUntil(() => readdirSync(directory.path).length > 0, GONE_LIMIT)
  await directory.release()
  expect(existsSync(directory.path)).toBe(false)
  await ended
})
