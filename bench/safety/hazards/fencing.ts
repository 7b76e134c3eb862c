import { fail, notApplicable, pass, type Hazard } from '../hazard.ts'

const LEASES = 10

export const fencing: Hazard = {
  name: 'fencing',
  title: 'Fencing tokens increase',
  scenario: `${LEASES} leases in turn by two clients; the masters that have a counter lose it once`,
  async run(bench) {
    const client = await bench.client({ waitMs: 1_000 })
    const other = await bench.other({ waitMs: 1_000 })
    const tokens: (number | undefined)[] = []
    for (let turn = 0; turn < LEASES; turn++) {
      const holder = turn % 2 === 0 ? client : other
      const acquired = await holder.acquire('r', 5_000, 3_000)
      if (acquired.status !== 'held') throw new Error(`not granted: ${acquired.status}`)
      tokens.push(acquired.fencingToken)
      await holder.release(acquired.held)
      if (turn === LEASES / 2) await loseCounters(bench.masters.connections)
    }
    if (tokens.every((token) => token === undefined)) return notApplicable('it has none')
    const increase = tokens.every(
      (token, index) => index === 0 || (token ?? 0) > (tokens[index - 1] ?? 0),
    )
    const evidence = `${LEASES} leases, tokens ${increase ? 'increase' : 'do not increase'}: ${tokens[0]} … ${tokens.at(-1)}`
    return increase ? pass(evidence) : fail(evidence)
  },
}

/** Where the library keeps counters: whatever is named so. */
async function loseCounters(
  masters: readonly {
    keys(pattern: string): Promise<string[]>
    del(key: string): Promise<number>
  }[],
): Promise<void> {
  await Promise.all(
    masters.map(async (redis) => {
      const keys = await redis.keys('s-*:fence:*')
      await Promise.all(keys.map((key) => redis.del(key)))
    }),
  )
}
