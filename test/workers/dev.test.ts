import { utimes } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { Queue } from 'bullmq'
import { expect, test } from 'vitest'
import type { DashboardState } from '../../src/tools/dashboard/state.ts'
import { QUEUE } from '../../workers/dev-worker.ts'
import { Program } from './program.ts'

const DEV = fileURLToPath(new URL('../../workers/dev.ts', import.meta.url))
const WORKER = fileURLToPath(new URL('../../workers/dev-worker.ts', import.meta.url))

test('npm run dev: jobs run, the page answers, the worker starts again when it is changed, and Ctrl-C ends all', async () => {
  await using program = new Program(DEV, ['--port', '0'])
  const [, url = ''] = await program.line(/BULLMQ_REDLOCK_QUEUE=(\S+)/)
  const [, page = ''] = await program.line(/dashboard at (\S+)/)
  expect((await fetch(page)).status).toBe(200)
  const { fleet } = (await (await fetch(`${page}state`)).json()) as DashboardState
  const warnings = fleet.findings.filter(({ severity }) => severity !== 'note')
  expect(warnings.map(({ code }) => code)).not.toContain('persistence')
  const queue = new Queue(QUEUE, { connection: { url } })
  const completed = async (): Promise<number> => queue.getCompletedCount()
  await expect.poll(completed, { timeout: 60_000 }).toBeGreaterThan(0)

  const starts = (): number =>
    [...program.out, ...program.err].filter((line) => line.includes('works on')).length
  expect(starts()).toBe(1)
  await utimes(WORKER, new Date(), new Date())
  await expect.poll(starts, { timeout: 60_000 }).toBe(2)
  const before = await completed()
  await expect.poll(completed, { timeout: 60_000 }).toBeGreaterThan(before + 3)
  await queue.close()

  program.interrupt()
  expect((await program.end()).code).toBe(130)
  await expect.poll(() => program.groupIsAlive, { timeout: 60_000 }).toBe(false)
})
