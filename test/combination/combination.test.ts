/** A few episodes of what people combine; `npm run combine` runs as many as you like. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ALL_FEATURES, APART, drawPlan, REFUSED } from './draw.ts'
import { judgedEpisode } from './judged.ts'
import { describe as describeFailure } from './report.ts'
import { World } from './world.ts'

const EPISODES = 20
const LANES = 6

describe('what people combine', () => {
  let world: World | undefined
  beforeAll(async () => {
    world = await World.open()
  })
  afterAll(async () => {
    await world?.[Symbol.asyncDispose]()
  })

  test(`holds in ${EPISODES} episodes`, { timeout: 120_000 }, async () => {
    const seeds = Array.from({ length: EPISODES }, (_, index) => index + 1)
    const lane = async (): Promise<void> => {
      for (let seed = seeds.shift(); seed !== undefined; seed = seeds.shift()) {
        const { history, violations } = await judgedEpisode(world as World, drawPlan(seed))
        if (violations.length === 0) continue
        const failure = describeFailure(history, violations)
        throw new Error(`npm run combine -- --seed ${seed}\n${failure}`)
      }
    }
    await Promise.all(Array.from({ length: LANES }, lane))
  })
})

describe('a plan', () => {
  const plans = Array.from({ length: 3_000 }, (_, index) => drawPlan(index + 1))

  test('has each feature, and each two of them that may be combined', () => {
    const drawn = new Set(
      plans.flatMap(({ features }) =>
        features.flatMap((one) => features.map((other) => `${one} + ${other}`)),
      ),
    )
    const refused = new Set(
      [...REFUSED, ...APART].map(([one, other]) => [one, other].sort().join()),
    )
    const missing = ALL_FEATURES.flatMap((one) =>
      ALL_FEATURES.filter(
        (other) =>
          one <= other &&
          !drawn.has(`${one} + ${other}`) &&
          !refused.has([one, other].sort().join()),
      ).map((other) => `${one} + ${other}`),
    )
    // Some are drawn together once in several thousand episodes.
    expect(missing.length).toBeLessThan(ALL_FEATURES.length / 2)
  })
})
