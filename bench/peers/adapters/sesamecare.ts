/** @sesamecare-oss/redlock, a maintained fork of node-redlock 5. */
import type { Connect } from '../adapter.ts'
import { loadPeer } from '../load.ts'
import { connectTo, type RedlockClass } from '../node-redlock-5.ts'

export const connect: Connect = async (setup) =>
  connectTo((await loadPeer<{ Redlock: RedlockClass }>('@sesamecare-oss/redlock')).Redlock, setup)
