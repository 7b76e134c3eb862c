/**
 * Ports for servers. They lie below the range from which Linux, macOS and Windows take the local
 * ports of outgoing connections: a port from that range could be gone by the time a killed server
 * returns to it.
 */

import { once } from 'node:events'
import { mkdirSync, readlinkSync, rmdirSync, rmSync, symlinkSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const LOWEST = 20_000
const HIGHEST = 32_000
const MAX_TRIES = 200

/** Ports of this process's servers, the killed ones too, which come back to theirs. */
const taken = new Set<number>()
/** A link for each port that a process of this user has taken. It points to the process's id. */
const RESERVED = join(tmpdir(), `bullmq-redlock-ports-${process.getuid?.() ?? 0}`)

process.on('exit', () => {
  for (const port of taken) returnPort(port)
  try {
    rmdirSync(RESERVED)
  } catch {
    // Another process has ports, or this one had none.
  }
})

/** A port on which no program listens: ours until {@link returnPort}, or the process ends. */
export async function takePort(host: string): Promise<number> {
  for (let attempt = 0; attempt < MAX_TRIES; attempt += 1) {
    const port = LOWEST + Math.floor(Math.random() * (HIGHEST - LOWEST))
    if (!reserve(port)) continue
    if (await isFree(host, port)) return port
    returnPort(port)
  }
  throw new Error(`No free port between ${LOWEST} and ${HIGHEST} after ${MAX_TRIES} tries`)
}

export function returnPort(port: number): void {
  if (taken.delete(port)) rmSync(linkOf(port), { force: true })
}

/** Also false where a process that has ended left a link: it goes, and another port is tried. */
function reserve(port: number): boolean {
  const link = linkOf(port)
  try {
    mkdirSync(RESERVED, { recursive: true })
    symlinkSync(`${process.pid}`, link)
  } catch {
    if (!isReserved(link)) rmSync(link, { force: true })
    return false
  }
  taken.add(port)
  return true
}

function isReserved(link: string): boolean {
  try {
    return process.kill(Number(readlinkSync(link)), 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

function linkOf(port: number): string {
  return join(RESERVED, `${port}`)
}

async function isFree(host: string, port: number): Promise<boolean> {
  const probe = createServer().listen(port, host)
  try {
    await once(probe, 'listening')
  } catch {
    return false
  }
  await once(probe.close(), 'close')
  return true
}
