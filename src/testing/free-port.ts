/**
 * Ports for servers. They lie below the range from which Linux, macOS and Windows take the local
 * ports of outgoing connections: a port from that range could be gone by the time a killed server
 * returns to it.
 */

import { createServer } from 'node:net'

const LOWEST = 20_000
const HIGHEST = 32_000
const MAX_TRIES = 200

/** Ports of this process's servers, the killed ones too, which come back to theirs. */
const taken = new Set<number>()

/**
 * A port on which no program listens; it stays reserved in this process until {@link returnPort}.
 */
export async function takePort(host: string): Promise<number> {
  for (let attempt = 0; attempt < MAX_TRIES; attempt += 1) {
    const port = LOWEST + Math.floor(Math.random() * (HIGHEST - LOWEST))
    if (taken.has(port)) continue
    taken.add(port)
    if (await isFree(host, port)) return port
    taken.delete(port)
  }
  throw new Error(`No free port between ${LOWEST} and ${HIGHEST} after ${MAX_TRIES} tries`)
}

export function returnPort(port: number): void {
  taken.delete(port)
}

function isFree(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer()
    probe.once('error', () => {
      resolve(false)
    })
    probe.listen(port, host, () => {
      probe.close(() => {
        resolve(true)
      })
    })
  })
}
