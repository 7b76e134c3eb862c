/** redlock 5.0.0-beta.2, the newest release of node-redlock. */
import type { Adapter } from '../adapter.ts'
import { connectRedlock5, type RedlockClass } from '../node-redlock-5.ts'
import { loadPeer, peerVersion } from '../load.ts'

export const adapter: Adapter = {
  versions: await Promise.all(['redlock-5', 'ioredis'].map(peerVersion)),
  keyPrefix: ({ namespace }) => `${namespace}:`,
  async connect(setup) {
    const { default: Redlock } = await loadPeer<{ default: RedlockClass }>('redlock-5')
    return connectRedlock5(Redlock, setup)
  },
}
