import { describe, expect, it, vi } from 'vitest'
import { Program, runProgram } from './program.ts'

const DEMO = 'workers/demo/main.ts'

vi.setConfig({ testTimeout: 240_000 })

interface Result {
  readonly right: boolean
  readonly jobsIn: number
  readonly jobsDone: number
  readonly duplicateEffects: readonly unknown[]
  readonly outOfTurnEffects: readonly unknown[]
  readonly wrongBalances: readonly unknown[]
  readonly staleWritesRefused: readonly unknown[]
  readonly interruptedJobRanAgain: boolean
  readonly faults: readonly { name: string; seen: readonly string[]; missing?: string }[]
  readonly problems: readonly string[]
}

interface Run {
  readonly code: number | null
  readonly out: readonly string[]
  readonly err: readonly string[]
  readonly result: Result
}

async function demo(...args: readonly string[]): Promise<Run> {
  const { code, out, err } = await runProgram(DEMO, ['--fast', '--json', ...args])
  if (out.length === 0) throw new Error(`The demo ended with ${code}: ${err.join('\n')}`)
  const result = JSON.parse(out.at(-1) ?? '') as Result
  return { code, out, err, result }
}

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

  it('finds what goes wrong without a lease', async () => {
    const { code, result } = await demo('--without', 'lease')
    expect(code).toBe(1)
    expect(result.right).toBe(false)
    expect(result.outOfTurnEffects.length).toBeGreaterThan(0)
    expect(result.problems.join('\n')).toMatch(
      /out-of-turn effects, among them:\n.+\n +entry \d+ by/,
    )
  })

  it('finds the one stale write that gets through without fencing', async () => {
    const { code, result } = await demo('--without', 'fencing')
    expect(code).toBe(1)
    expect(result.staleWritesRefused).toEqual([])
    expect(result.outOfTurnEffects.length).toBeGreaterThan(0)
    expect(result.faults.flatMap(({ missing }) => missing ?? [])).toEqual([])
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
    expect(wrong.code).toBe(2)
    expect(wrong.err[0]).toBe('Expected --without to be one of lease, fencing, got "hope"')
  })
})
