/** From a clone to a page on which jobs move, with Node alone. */
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import type { QueueCounts } from '../../src/tools/operator/queue-counts.ts'
import { Program } from '../workers/program.ts'

const LIMIT_MS = 60_000
const ROOT = join(import.meta.dirname, '..', '..')

it('`npm run dev` shows jobs that move within a minute, before anything is installed', async () => {
  const clone = mkdtempSync(join(tmpdir(), 'bullmq-redlock-clone-'))
  onTestFinished(() => {
    rmSync(clone, { recursive: true, force: true })
  })
  for (const name of ['package.json', 'package-lock.json', 'src', 'scripts', 'workers']) {
    cpSync(join(ROOT, name), join(clone, name), { recursive: true })
  }
  const startedAt = performance.now()
  await using program = new Program(join(clone, 'scripts', 'start.js'), [
    join(clone, 'workers', 'dev.ts'),
    ...['--port', '0'],
  ])
  const [, page = ''] = await program.line(/dashboard at (\S+)/)
  const done = async (): Promise<number> => {
    const answer = await fetch(`${page}state`)
    const { queues } = (await answer.json()) as { queues: readonly QueueCounts[] | null }
    return queues?.reduce((sum, one) => sum + one.done, 0) ?? 0
  }
  await expect.poll(done, { timeout: LIMIT_MS }).toBeGreaterThan(0)
  const tookMs = Math.round(performance.now() - startedAt)
  console.log(`jobs move on the page ${tookMs} ms after \`npm run dev\` in a fresh clone`)
  expect(tookMs).toBeLessThan(LIMIT_MS)
  program.interrupt()
  expect((await program.end()).code).toBe(130)
})
