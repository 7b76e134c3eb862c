/** Of random histories, those with a planted overlap are found, and the others are clean. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { verifyHistory, verifyHistoryFiles } from '../../../src/tools/verify/verify-history.ts'
import { leasesOf, linesOf, pairsOf, type Line, type Turn, type World } from './random-history.ts'

const SKEW_MS = 20

const turn: fc.Arbitrary<Turn> = fc.record({
  resource: fc.integer({ min: 0, max: 3 }),
  lock: fc.integer({ min: 0, max: 5 }),
  holdMs: fc.integer({ min: 1, max: 40 }),
  gapMs: fc.integer({ min: 0, max: 60 }),
  extensions: fc.integer({ min: 0, max: 2 }),
  end: fc.constantFrom('released', 'handed-over', 'lost', 'lapsed'),
})

const world: fc.Arbitrary<World> = fc.record({
  turns: fc.array(turn, { minLength: 2, maxLength: 150, size: 'max' }),
  wallErrorsMs: fc.array(fc.double({ min: -SKEW_MS / 2, max: SKEW_MS / 2, noNaN: true }), {
    minLength: 1,
    maxLength: 3,
  }),
  locksPerMachine: fc.constantFrom(1, 2),
})

const verify = (logs: readonly (readonly Line[])[]) =>
  verifyHistory(
    logs.map((lines, index) => ({ name: `log ${index}`, lines })),
    { clockSkewMs: SKEW_MS },
  )

it('successive leases are clean, also with clocks that differ', async () => {
  await fc.assert(
    fc.asyncProperty(world, async (given) => {
      const { findings, verdict, leases } = await verify(linesOf(given))
      expect(findings).toEqual([])
      expect({ verdict, leases }).toEqual({ verdict: 'clean', leases: given.turns.length })
    }),
    { numRuns: 60 },
  )
})

it('one log of all processes, a little out of order, gives the same verdict', async () => {
  await fc.assert(
    fc.asyncProperty(
      world,
      fc.array(fc.integer({ min: 0, max: 100 }), { minLength: 7, maxLength: 50 }),
      async (given, late) => {
        const mixed = linesOf(given)
          .flat()
          .map((line, index) => ({ line, atMs: line.wallMs + (late[index % late.length] ?? 0) }))
          .sort((a, b) => a.atMs - b.atMs)
          .map(({ line }) => line)
        const { findings, verdict } = await verify([mixed])
        expect(findings).toEqual([])
        expect(verdict).toBe('clean')
      },
    ),
    { numRuns: 60 },
  )
})

it('finds a lease that is still trusted when the next one begins', async () => {
  await fc.assert(
    fc.asyncProperty(
      world,
      fc.nat(),
      fc.double({ min: 0.01, max: 30, noNaN: true }),
      async (given, choice, moreMs) => {
        const pairs = pairsOf(leasesOf(given.turns))
        fc.pre(pairs.length > 0)
        const index = choice % pairs.length
        const next = pairs[index]?.[1]
        const overlapMs = 2 * SKEW_MS + moreMs
        // The successor must last as long as the overlap.
        fc.pre(next !== undefined && next.untilMs - next.fromMs > overlapMs)
        const { verdict, violations, longestOverlapMs } = await verify(
          linesOf(given, { index, overlapMs }),
        )
        expect(verdict).toBe('violated')
        expect(violations.overlap).toBeGreaterThan(0)
        expect(longestOverlapMs).toBeGreaterThan(moreMs - 0.01)
      },
    ),
    { numRuns: 60 },
  )
})

it('finds the smallest overlap on one machine', async () => {
  const oneMachine = world.map((given) => ({ ...given, wallErrorsMs: [0] }))
  await fc.assert(
    fc.asyncProperty(oneMachine, fc.nat(), async (given, choice) => {
      const pairs = pairsOf(leasesOf(given.turns))
      fc.pre(pairs.length > 0)
      const { violations } = await verify(
        linesOf(given, { index: choice % pairs.length, overlapMs: 0.01 }),
      )
      expect(violations.overlap).toBe(1)
    }),
    { numRuns: 60 },
  )
})

it('reads many large files whole', async () => {
  const [given] = fc.sample(
    fc.record({
      turns: fc.array(
        turn.map((one) => ({ ...one, lock: one.holdMs })),
        {
          minLength: 4_000,
          maxLength: 4_000,
        },
      ),
      wallErrorsMs: fc.constant([0]),
      locksPerMachine: fc.constant(41),
    }),
    { numRuns: 1, seed: 1 },
  )
  const directory = await mkdtemp(join(tmpdir(), 'history-files-'))
  try {
    const paths = linesOf(given ?? { turns: [], wallErrorsMs: [0], locksPerMachine: 6 }).map(
      (lines, index) => ({ path: join(directory, `${index}.ndjson`), lines }),
    )
    for (const { path, lines } of paths) {
      await writeFile(path, lines.map((line) => `${JSON.stringify(line)}\n`).join(''))
    }
    const { verdict, leases, missing } = await verifyHistoryFiles(paths.map(({ path }) => path))
    expect({ verdict, leases, missing: missing.lines }).toEqual({
      ...{ verdict: 'clean', leases: 4_000, missing: 0 },
    })
  } finally {
    await rm(directory, { recursive: true })
  }
})
