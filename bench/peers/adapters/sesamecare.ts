/** @sesamecare-oss/redlock, a maintained fork of node-redlock 5. */
import type { Adapter } from '../adapter.ts'
import { connectRedlock5, type RedlockClass } from '../node-redlock-5.ts'
import { loadPeer, peerVersion } from '../load.ts'

export const adapter: Adapter = {
  versions: await Promise.all(['@sesamecare-oss/redlock', 'ioredis'].map(peerVersion)),
  keyPrefix: ({ namespace }) => `${namespace}:`,
  async connect(setup) {
    const { Redlock } = await loadPeer<{ Redlock: RedlockClass }>('@sesamecare-oss/redlock')
    return connectRedlock5(Redlock, setup)
  },
}
