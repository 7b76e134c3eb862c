/** `npm run demo -- --locks …`: on real servers, with a right ledger, and nothing left behind. */
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { KINDS } from '../../scripts/lock-servers/lock-servers.ts'
import { describeService } from '../support/describe-service.ts'
import { Program, runProgram } from '../workers/program.ts'

const DEMO = 'workers/demo/main.ts'
const TIMEOUT_MS = 240_000

/** Where the demo has everything that it makes. */
let directory: string
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'demo-locks-'))
  chmodSync(directory, 0o755) // PostgreSQL runs as its own user.
})
afterEach(() => {
  rmSync(directory, { recursive: true, force: true })
})

/** Processes that were told of the directory. */
function processes(): readonly string[] {
  return readdirSync('/proc').filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(directory)
    } catch {
      return false // It ended meanwhile.
    }
  })
}

for (const kind of KINDS) {
  describeService(kind, `npm run demo -- --locks ${kind}`, () => {
    test(
      'ends with a correct ledger, and every fault happened',
      async () => {
        const args = ['--fast', '--json', '--locks', kind]
        const { code, out, err } = await runProgram(DEMO, args, { TMPDIR: directory })
        if (out.length === 0) throw new Error(`The demo ended with ${code}: ${err.join('\n')}`)
        const result = JSON.parse(out.at(-1) ?? '') as {
          readonly faults: readonly { readonly name: string }[]
          readonly staleWritesRefused: readonly unknown[]
        }
        expect(result, err.join('\n')).toMatchObject({ right: true, jobsDone: 150, problems: [] })
        expect(result.faults.map(({ name }) => name).sort()).toEqual([
          ...['server lost', 'worker frozen', 'worker killed'],
        ])
        expect(result.staleWritesRefused.length).toBeGreaterThan(0)
        expect(code).toBe(0)
        expect(processes()).toEqual([])
        expect(readdirSync(directory).filter((name) => name.startsWith('bullmq'))).toEqual([])
      },
      TIMEOUT_MS,
    )

    test(
      'leaves no process after Ctrl-C',
      async () => {
        await using program = new Program(DEMO, ['--fast', '--locks', kind], { TMPDIR: directory })
        await program.line(/starting/)
        await expect.poll(() => processes().length, { timeout: 60_000 }).toBeGreaterThan(0)
        program.interrupt()
        const { code, err } = await program.end()
        expect({ code, err }).toMatchObject({ code: 130 })
        await expect.poll(() => processes(), { timeout: 60_000 }).toEqual([])
      },
      TIMEOUT_MS,
    )
  })
}

test('says what to install where the server is absent', async () => {
  const said = await runProgram(DEMO, ['--locks', 'etcd'], { PATH: '/nowhere' })
  expect(said).toMatchObject({
    code: 1,
    err: ['etcd is not installed. On Debian or Ubuntu: apt-get install etcd-server'],
  })
})
