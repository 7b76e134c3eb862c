import { fail, milliseconds, pass, type Hazard } from '../hazard.ts'

export const evenMasters: Hazard = {
  name: 'even-masters',
  title: 'One vote for and one against is an answer',
  scenario: 'two masters, a foreign key on one of them, a single attempt',
  async run(bench) {
    const client = await bench.client({ masters: 2 })
    await bench.occupy(client.key('r'), [0], 60_000)
    const acquired = await client.acquire('r', 5_000, 3_000)
    bench.happened('a foreign key', (await bench.ttlsMs(client.key('r')))[0] ?? 0)
    if (acquired.status === 'pending') return fail(`no answer in ${milliseconds(acquired.limitMs)}`)
    const after = `after ${milliseconds(acquired.tookMs)}`
    return acquired.status === 'refused' ? pass(`refused ${after}`) : fail(`granted ${after}`)
  },
}
