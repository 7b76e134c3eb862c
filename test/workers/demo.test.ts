import { describe, expect, it, vi } from 'vitest'
import { demo, DEMO, DEMO_LIMIT_MS } from './demo-run.ts'
import { Program, runProgram } from './program.ts'

vi.setConfig({ testTimeout: DEMO_LIMIT_MS })

describe('npm run demo', () => {
  it('ends with a correct ledger, and every fault happened', async () => {
    const { code, out, err, result } = await demo()
    expect(result.problems).toEqual([])
    expect(result).toMatchObject({
      right: true,
      jobsIn: 150,
      jobsDone: 150,
      duplicateEffects: [],
      outOfTurnEffects: [],
      wrongBalances: [],
      interruptedJobRanAgain: true,
    })
    expect(result.staleWritesRefused.length).toBeGreaterThan(0)
    const names = result.faults.map(({ name }) => name).sort()
    expect(names).toEqual(['master lost', 'worker frozen', 'worker killed'])
    expect(result.faults.flatMap(({ missing }) => missing ?? [])).toEqual([])
    expect(code).toBe(0)
    expect(out).toHaveLength(1)
    expect(err).toEqual([])
  })

  it('leaves nothing running after Ctrl-C, and ends with 130', async () => {
    await using program = new Program(DEMO, ['--fast'])
    await program.line(/strikes of \d+ operators/)
    await program.line(/ done, /)
    program.interrupt()
    expect((await program.end()).code).toBe(130)
    await expect.poll(() => program.groupIsAlive, { timeout: 60_000 }).toBe(false)
  })

  it('leaves nothing behind after kill -9 either, not even the worker that it has just frozen', async () => {
    await using program = new Program(DEMO, ['--fast'])
    await program.line(/frozen \(SIGSTOP\)/)
    program.kill('SIGKILL')
    await expect.poll(() => program.groupIsAlive, { timeout: 60_000 }).toBe(false)
  })

  it('explains itself, and refuses what it does not know', async () => {
    const help = await runProgram(DEMO, ['--help'])
    expect(help.code).toBe(0)
    expect(help.out.join('\n')).toContain('--without fencing')
    const wrong = await runProgram(DEMO, ['--without', 'hope'])
    expect(wrong).toMatchObject({
      code: 2,
      err: ['Expected --without lease or --without fencing, got "hope"'],
    })
  })
})
