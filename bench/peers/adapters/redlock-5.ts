/** redlock 5.0.0-beta.2, the newest release of node-redlock. */
import type { Connect } from '../adapter.ts'
import { loadPeer } from '../load.ts'
import { connectTo, type RedlockClass } from '../node-redlock-5.ts'

export const connect: Connect = async (setup) =>
  connectTo((await loadPeer<{ default: RedlockClass }>('redlock-5')).default, setup)
