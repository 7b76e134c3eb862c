/** What becomes of a command when its output is not read any more. */
import { spawn, type ChildProcessByStdio } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { describe, expect, it } from 'vitest'
import type { LockedQueue } from '../../../src/index.ts'
import { nodeArgs } from '../../support/programs.ts'
import { until, useFleet } from '../../fixtures.ts'
import { assertNoLeaks } from '../../support/leaks.ts'

assertNoLeaks()
const fixture = useFleet({ masters: 1 })
const MAIN = nodeArgs('src/tools/cli/main.ts')
const WORKER = nodeArgs('test/tools/cli/ledger-worker-child.ts').at(-1) ?? ''

type Running = ChildProcessByStdio<null, Readable, Readable>

function start(...args: readonly string[]): Running {
  const child = spawn(process.execPath, [...MAIN, ...args], {
    env: { ...fixture.env, PATH: process.env['PATH'], QUEUE: fixture.namespace },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  fixture.defer(async () => {
    if (child.exitCode === null && child.kill('SIGKILL')) await once(child, 'close')
  })
  return child
}

async function firstLine(stream: Readable): Promise<void> {
  await once(createInterface({ input: stream }), 'line')
}

interface Data {
  readonly customerId: number
  readonly untilStopped?: boolean
  readonly warns?: number
}

function openQueue(): LockedQueue<Data> {
  return fixture.lockedQueue<Data>({
    resource: ({ customerId }) => `customer:${customerId}`,
  })
}

describe('work goes on by its own rules', () => {
  it('with a reader that stands still: jobs run, and a signal drains', async () => {
    await fixture.redlock()
    const queue = openQueue()
    const worker = start('work', WORKER, '--drain-ms', '200')
    const ended = once(worker, 'exit')
    // More than any pipe takes.
    await queue.add('post', { customerId: 1, warns: 3_000 })
    await queue.add('post', { customerId: 2 })
    await until('all jobs ran', async () => (await queue.getCompletedCount()) === 2)
    worker.kill('SIGTERM')
    expect(await ended).toEqual([0, null])
  })

  it.each([[['stdout']], [['stderr']], [['stdout', 'stderr']]] as const)(
    'without a reader of %j: jobs run, and a signal drains',
    async (gone) => {
      await fixture.redlock()
      const queue = openQueue()
      const worker = start('work', WORKER, '--drain-ms', '200')
      const ended = once(worker, 'exit')
      await queue.add('post', { customerId: 1 })
      await Promise.all([firstLine(worker.stdout), firstLine(worker.stderr)])
      for (const name of gone) worker[name].destroy()
      for (const customerId of [1, 2, 3]) await queue.add('post', { customerId })
      await until('all jobs ran', async () => (await queue.getCompletedCount()) === 4)
      const long = await queue.add('post', { customerId: 1, untilStopped: true })
      await until('a long job runs', async () => (await long.getState()) === 'active')
      worker.kill('SIGINT')
      expect(await ended).toEqual([130, null])
      expect(await long.getState()).not.toBe('active')
      expect(await long.isFailed()).toBe(false)
    },
  )
})

describe('other commands end quietly', () => {
  it('without a reader of their result', async () => {
    await fixture.redlock()
    const command = start('leases')
    let said = ''
    command.stderr.on('data', (data) => (said += String(data)))
    command.stdout.destroy()
    expect(await once(command, 'close')).toEqual([0, null])
    expect(said).toBe('')
  })

  it('without a reader of what they note: the exit code is what it was', async () => {
    const command = start('leases', '--limit', 'x')
    command.stderr.destroy()
    expect(await once(command, 'close')).toEqual([2, null])
  })
})
