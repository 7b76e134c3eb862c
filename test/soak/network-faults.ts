/** What the network does to the connections of one to three masters. */
import type { FaultProxy, Hold } from '../support/proxy.ts'
import type { Fault, Strike, Target } from './fault.ts'

function proxiesOf({ harness, indexes }: Strike): readonly FaultProxy[] {
  return indexes.map((index) => harness.proxy(index))
}

/** Breaks, rests, passes again; counted by what the proxies counted meanwhile. */
function cut(
  kind: string,
  target: Target,
  begin: (proxy: FaultProxy) => Promise<void>,
  counted: (proxy: FaultProxy) => number,
): Fault {
  return {
    kind,
    target,
    weight: 3,
    async strike(strike) {
      const proxies = proxiesOf(strike)
      const count = (): number => proxies.reduce((sum, proxy) => sum + counted(proxy), 0)
      const before = count()
      await Promise.all(proxies.map((proxy) => begin(proxy)))
      await strike.rest(30, 700)
      const seen = count() - before
      await Promise.all(proxies.map((proxy) => proxy.pass()))
      return seen
    },
  }
}

function hold(
  kind: string,
  begin: (proxy: FaultProxy) => Hold,
  side: 'requests' | 'replies',
): Fault {
  return {
    kind,
    target: 'master',
    weight: 3,
    async strike(strike) {
      const [proxy] = proxiesOf(strike)
      if (proxy === undefined) return 0
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

const lostRequests = ({ counters }: FaultProxy): number => counters.requests.lost
const lostReplies = ({ counters }: FaultProxy): number => counters.replies.lost
const resets = ({ counters }: FaultProxy): number => counters.resets

export const networkFaults: readonly Fault[] = [
  cut('net:black-hole', 'masters', (proxy) => proxy.drop(), lostRequests),
  cut('net:lost-requests', 'masters', (proxy) => proxy.dropRequests(), lostRequests),
  cut('net:lost-replies', 'masters', (proxy) => proxy.dropReplies(), lostReplies),
  cut('net:refused', 'masters', (proxy) => proxy.refuse(), resets),
  cut(
    'net:reset',
    'masters',
    (proxy) => {
      proxy.reset()
      return Promise.resolve()
    },
    resets,
  ),
  hold('net:held-requests', (proxy) => proxy.holdRequests(), 'requests'),
  hold('net:held-replies', (proxy) => proxy.holdReplies(), 'replies'),
  {
    kind: 'net:delay',
    target: 'masters',
    weight: 4,
    async strike(strike) {
      const proxies = proxiesOf(strike)
      const count = (): number =>
        proxies.reduce(
          (sum, { counters }) => sum + counters.requests.delayed + counters.replies.delayed,
          0,
        )
      const before = count()
      const worstMs = 10 ** strike.random.between(0.5, 3)
      const delayMs = (): number => strike.random.next() ** 2 * worstMs
      for (const proxy of proxies) proxy.delay({ requestsMs: delayMs, repliesMs: delayMs })
      await strike.rest(100, 800)
      const seen = count() - before
      await Promise.all(proxies.map((proxy) => proxy.pass()))
      return seen
    },
  },
]
