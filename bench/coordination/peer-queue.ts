/** The libraries beside ours that keep an order by key. */
import type { Contender, Peer } from './job.ts'
import type { Add, Work } from './serve-worker.ts'

/** Each is used as its own documentation shows it, with what serves it best here. */
export interface PeerQueue {
  readonly work: Work
  /** Adds jobs; those of one key in their order. */
  readonly add: Add
}

const PEERS: Readonly<Record<Peer, () => Promise<{ readonly peer: PeerQueue }>>> = {
  groupmq: () => import('./peers/groupmq.ts'),
  bunqueue: () => import('./peers/bunqueue.ts'),
  'pg-boss': () => import('./peers/pg-boss.ts'),
  'graphile-worker': () => import('./peers/graphile-worker.ts'),
}

export function isPeer(contender: Contender): contender is Peer {
  return contender in PEERS
}

export async function peerQueue(name: Peer): Promise<PeerQueue> {
  return (await PEERS[name]()).peer
}
