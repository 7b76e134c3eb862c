import { createHook } from 'node:async_hooks'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { beforeAll, expect, it, vi } from 'vitest'
import { watchLeaks, type LeakWatch } from '../support/leaks.ts'

const AsyncHook = Object.getPrototypeOf(createHook({})) as ReturnType<typeof createHook>
const watch = (): LeakWatch => watchLeaks({ settleMs: 300 })

// Files share a process: what the one before this has closed may take a moment to go.
beforeAll(() => watchLeaks().assertNone())

it('finds nothing where nothing is left, or where it is about to go', async () => {
  await watch().assertNone()
  const leaks = watch()
  setTimeout(() => undefined, 50)
  await leaks.assertNone()
})

it('ends its hook on promises when it has found nothing', async () => {
  const enable = vi.spyOn(AsyncHook, 'enable')
  const disable = vi.spyOn(AsyncHook, 'disable')
  try {
    await watch().assertNone()
    expect(enable.mock.contexts).toHaveLength(1)
    expect(disable.mock.contexts).toEqual(enable.mock.contexts)
  } finally {
    vi.restoreAllMocks()
  }
})

it('finds a timer', async () => {
  const leaks = watch()
  const timer = setInterval(() => undefined, 10_000)
  await expect(leaks.assertNone()).rejects.toThrow('Left behind: 1 Timeout')
  clearInterval(timer)
  await leaks.assertNone()
})

it('finds a listener', async () => {
  const leaks = watch()
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  await expect(leaks.assertNone()).rejects.toThrow('Left behind: 1 TCPServerWrap')
  server.close()
  await leaks.assertNone()
})

it('finds a child process', async () => {
  const leaks = watch()
  const child = spawn('sleep', ['60'], { stdio: 'ignore' })
  await expect(leaks.assertNone()).rejects.toThrow('Left behind: 1 ProcessWrap')
  child.kill()
  await leaks.assertNone()
})
