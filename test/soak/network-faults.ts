/** What the network does to the connections of one to three masters. */
import { CUTS, type Cut } from '../faults/cuts.ts'
import type { FaultProxy, Hold } from '../support/proxy.ts'
import type { Fault, Strike } from './fault.ts'
import type { MastersWorld } from './masters-world.ts'

type Struck = Strike<MastersWorld>

const CUT_MS = { min: 30, max: 700 }

function proxiesOf({ world, indexes }: Struck): readonly FaultProxy[] {
  return indexes.map((index) => world.masters.proxy(index))
}

/** Cuts, rests, passes again; counted by what the proxies counted meanwhile. */
export async function cutOf(
  strike: Strike<unknown>,
  cutting: Cut,
  proxies: readonly FaultProxy[],
  { min, max } = CUT_MS,
): Promise<number> {
  const count = (): number => proxies.reduce((sum, proxy) => sum + cutting.strikes(proxy), 0)
  const before = count()
  await Promise.all(proxies.map((proxy) => cutting.begin(proxy)))
  await strike.rest(min, max)
  const seen = count() - before
  await Promise.all(proxies.map((proxy) => proxy.pass()))
  return seen
}

function cut(how: Cut): Fault<MastersWorld> {
  return {
    ...{ kind: `net:${how.how.replace(' ', '-')}`, target: 'masters', weight: 3 },
    strike: (strike) => cutOf(strike, how, proxiesOf(strike)),
  }
}

function hold(
  kind: string,
  begin: (proxy: FaultProxy) => Hold,
  side: 'requests' | 'replies',
): Fault<MastersWorld> {
  return {
    kind,
    target: 'master',
    weight: 3,
    async strike(strike) {
      const proxy = strike.world.masters.proxy(strike.index)
      const before = proxy.counters[side].held
      const held = begin(proxy)
      await strike.rest(20, 400)
      if (strike.random.chance(0.5)) held.lose()
      else held.release()
      const seen = proxy.counters[side].held - before
      await proxy.pass()
      return seen
    },
  }
}

export const networkFaults: readonly Fault<MastersWorld>[] = [
  ...CUTS.map(cut),
  hold('net:held-requests', (proxy) => proxy.holdRequests(), 'requests'),
  hold('net:held-replies', (proxy) => proxy.holdReplies(), 'replies'),
  {
    kind: 'net:delay',
    target: 'masters',
    weight: 4,
    async strike(strike) {
      const worstMs = 10 ** strike.random.between(0.5, 3)
      const delayMs = (): number => strike.random.next() ** 2 * worstMs
      const late: Cut = {
        how: 'delay',
        begin(proxy) {
          proxy.delay({ requestsMs: delayMs, repliesMs: delayMs })
          return Promise.resolve()
        },
        strikes: ({ counters }) => counters.requests.delayed + counters.replies.delayed,
      }
      return cutOf(strike, late, proxiesOf(strike), { min: 100, max: 800 })
    },
  },
]
