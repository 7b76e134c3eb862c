/** Ports of servers that are killed and come back, in processes that run at the same time. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { nodeArgs } from '../support/programs.ts'

const CHILD = join(import.meta.dirname, 'ports-child.ts')

test('no two processes have the same port, though nothing listens on it', async () => {
  const children = [1, 2, 3].map(() => spawn(process.execPath, nodeArgs(CHILD)))
  const ports = await Promise.all(
    children.map(async ({ stdout }) => {
      const [line] = (await once(createInterface({ input: stdout }), 'line')) as [string]
      return JSON.parse(line) as readonly number[]
    }),
  )
  expect(new Set(ports.flat()).size).toBe(4_500)
  for (const child of children) {
    const ended = once(child, 'exit')
    child.stdin.end()
    await ended
  }
})
