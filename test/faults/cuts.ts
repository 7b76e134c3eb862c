/** What a network does to the connections of a master, and how a proxy counts it. */
import type { FaultProxy } from '../support/proxy.ts'

export interface Cut {
  readonly how: string
  begin(proxy: FaultProxy): Promise<unknown>
  /** How often it has struck. */
  strikes(proxy: FaultProxy): number
}

const lostRequests = ({ counters }: FaultProxy): number => counters.requests.lost
const resets = ({ counters }: FaultProxy): number => counters.resets

export const BLACK_HOLE: Cut = {
  how: 'black hole',
  begin: (proxy) => proxy.drop(),
  strikes: lostRequests,
}

export const REFUSED: Cut = {
  how: 'refused connections',
  begin: (proxy) => proxy.refuse(),
  strikes: resets,
}

export const CUTS: readonly Cut[] = [
  BLACK_HOLE,
  { how: 'lost requests', begin: (proxy) => proxy.dropRequests(), strikes: lostRequests },
  {
    how: 'lost replies',
    begin: (proxy) => proxy.dropReplies(),
    strikes: ({ counters }) => counters.replies.lost,
  },
  REFUSED,
  {
    how: 'reset connections',
    begin: (proxy) => {
      proxy.reset()
      return Promise.resolve()
    },
    strikes: resets,
  },
]
