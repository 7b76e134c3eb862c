/** What people see in a terminal, in a real one: `script` gives the command a pseudo-terminal. */
import { spawn, spawnSync, type ChildProcessWithoutNullStreams } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { granted, until, useFleet } from '../../fixtures.ts'
import { assertNoLeaks } from '../../support/leaks.ts'
import { cliInShell } from './run-cli.ts'

assertNoLeaks()
const fixture = useFleet({ masters: 3 })
const LONG = { leaseMs: 20_000, maxLeaseMs: 20_000 }
const ROOT = join(import.meta.dirname, '..', '..', '..')

/** util-linux's: BSD's takes other options. */
const SCRIPT = '/usr/bin/script'
const hasScript = process.platform === 'linux' && spawnSync(SCRIPT, ['--version']).status === 0

interface Terminal {
  /** Everything on the screen so far, with its codes. */
  readonly screen: () => string
  readonly keys: (text: string) => void
  readonly ended: Promise<number | null>
}

function terminal(args: readonly string[], env: NodeJS.ProcessEnv = {}): Terminal {
  const typed = ['-qfec', cliInShell(args), '/dev/null']
  const child: ChildProcessWithoutNullStreams = spawn(SCRIPT, typed, {
    cwd: ROOT,
    env: {
      ...{ PATH: process.env['PATH'], HOME: process.env['HOME'], TERM: 'xterm' },
      ...fixture.env,
      ...env,
    },
  })
  let seen = ''
  child.stdout.on('data', (data: Buffer) => {
    seen += data.toString()
  })
  fixture.defer(() => {
    child.stdin.destroy()
    child.kill('SIGKILL')
    return Promise.resolve()
  })
  return {
    screen: () => seen,
    keys: (text) => child.stdin.write(text),
    ended: once(child, 'close').then(() => child.exitCode),
  }
}

describe.skipIf(!hasScript)('in a terminal', () => {
  it('colours, and none with NO_COLOR', async () => {
    await fixture.redlock(LONG)
    const coloured = terminal(['doctor'])
    await coloured.ended
    expect(coloured.screen()).toContain('\u001b[32mvotes')
    const plain = terminal(['doctor'], { NO_COLOR: '1' })
    await plain.ended
    expect(plain.screen()).toContain('votes')
    expect(plain.screen()).not.toContain('\u001b[')
  })

  it('`release` asks; n changes nothing, y releases', async () => {
    const redlock = await fixture.redlock(LONG)
    const lease = await granted(redlock, 'customer:42')
    for (const [answer, code] of [
      ['n', 1],
      ['y', 0],
    ] as const) {
      const asked = terminal(['release', 'customer:42'])
      await until('it asks', () => asked.screen().includes('[y/N]'))
      expect(asked.screen()).toContain('A holder keeps running and is not notified')
      expect((await redlock.inspect('customer:42')).holder?.fencingToken).toBe(lease.fencingToken)
      asked.keys(`${answer}\r`)
      expect(await asked.ended).toBe(code)
    }
    expect((await redlock.inspect('customer:42')).holder).toBeUndefined()
  })
})
