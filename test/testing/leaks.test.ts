import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { beforeAll, expect, it } from 'vitest'
import { watchLeaks } from '../support/leaks.ts'

const leaks = watchLeaks({ settleMs: 300 })

// Files share a process: what the one before this has closed may take a moment to go.
beforeAll(() => watchLeaks().assertNone())

it('finds nothing where nothing is left, or where it is about to go', async () => {
  await leaks.assertNone()
  setTimeout(() => undefined, 50)
  await leaks.assertNone()
})

it('finds a timer', async () => {
  const timer = setInterval(() => undefined, 10_000)
  await expect(leaks.assertNone()).rejects.toThrow('Left behind: 1 Timeout')
  clearInterval(timer)
  await leaks.assertNone()
})

it('finds a listener', async () => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  await expect(leaks.assertNone()).rejects.toThrow('Left behind: 1 TCPServerWrap')
  server.close()
  await leaks.assertNone()
})

it('finds a child process', async () => {
  const child = spawn('sleep', ['60'], { stdio: 'ignore' })
  await expect(leaks.assertNone()).rejects.toThrow('Left behind: 1 ProcessWrap')
  child.kill()
  await leaks.assertNone()
})
