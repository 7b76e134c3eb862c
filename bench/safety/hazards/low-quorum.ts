import { fail, pass, type Hazard } from '../hazard.ts'

export const lowQuorum: Hazard = {
  name: 'low-quorum',
  title: 'A quorum below the majority cannot be configured',
  scenario: '`quorum: 1` is passed where options go, and a foreign key is on three of five masters',
  async run(bench) {
    let client
    try {
      client = await bench.client({ quorum: 1 })
    } catch (error) {
      return pass(`refused: ${(error as Error).message}`)
    }
    await bench.occupy(client.key('r'), [0, 1, 2], 60_000)
    const acquired = await client.acquire('r', 5_000, 3_000)
    const foreign = (await bench.ttlsMs(client.key('r'))).slice(0, 3).filter((ttlMs) => ttlMs > 0)
    bench.happened('three foreign keys', foreign.length === 3 ? 3 : 0)
    if (acquired.status !== 'held')
      return pass('there is no such option, and two of five are refused')
    return fail('accepted: granted with two of five masters while another held three')
  },
}
