/**
 * What Node could do at best, by hand: `SET NX PX` and compare-and-delete as bytes on five sockets,
 * everything that is asked in one turn of the event loop in one write. No fencing, no retries, no
 * clocks, no limits: not a lock.
 */
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { connect as openSocket } from 'node:net'
import type { Connect } from './adapters.ts'

export const COMPARE_AND_DELETE =
  "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"

export const connect: Connect = async ({ urls, namespace }) => {
  const masters = await Promise.all(urls.map((url) => openMaster(new URL(url))))
  const hash = createHash('sha1').update(COMPARE_AND_DELETE).digest('hex')
  await askQuorum(masters, ['SCRIPT', 'LOAD', COMPARE_AND_DELETE])
  const keyPrefix = `${namespace}:`
  return {
    keyPrefix,
    async acquire(resource, ttlMs) {
      const key = keyPrefix + resource
      const token = randomBytes(16).toString('hex')
      const set = ['SET', key, token, 'NX', 'PX', String(ttlMs)]
      if (!(await askQuorum(masters, set))) throw new Error(`Taken: ${resource}`)
      return {
        remainingMs: () => undefined,
        isHeld: () => true, // Nothing counts the time.
        release: () => askQuorum(masters, ['EVALSHA', hash, '1', key, token]),
      }
    },
    using: () => Promise.reject(new Error('It is not a lock')),
    reason: () => 'unknown',
    close() {
      for (const { socket } of masters) socket.destroy()
    },
  }
}

/** Resolves as soon as a majority has said yes, or can no longer. */
function askQuorum(masters: readonly Master[], parts: readonly string[]): Promise<boolean> {
  const bytes = encode(parts)
  let undecided = masters.length
  let missing = Math.floor(masters.length / 2) + 1
  return new Promise((resolve) => {
    const vote: Vote = (granted) => {
      undecided--
      if (granted && --missing === 0) resolve(true)
      else if (undecided < missing) resolve(false)
    }
    for (const master of masters) master.ask(bytes, vote)
  })
}

type Vote = (granted: boolean) => void
type Master = Awaited<ReturnType<typeof openMaster>>

function encode(parts: readonly string[]): string {
  let bytes = `*${parts.length}\r\n`
  for (const part of parts) bytes += `$${part.length}\r\n${part}\r\n`
  return bytes
}

async function openMaster({ hostname, port }: URL) {
  const socket = openSocket({ host: hostname, port: Number(port), noDelay: true })
  await once(socket, 'connect')
  socket.setEncoding('latin1')
  let waiting: Vote[] = []
  let answered = 0
  let unsent = ''
  let unread = ''
  // One line for each question; the hash that `SCRIPT LOAD` says is in a line of its own, behind
  // its length.
  socket.on('data', (text: string) => {
    const lines = (unread + text).split('\r\n')
    unread = lines.pop() ?? ''
    for (const line of lines) {
      if (line.startsWith('$') && line !== '$-1') continue
      waiting[answered++]?.(line !== '$-1' && line !== ':0' && !line.startsWith('-'))
    }
    if (answered < waiting.length) return
    waiting = []
    answered = 0
  })
  const ask = (bytes: string, vote: Vote): void => {
    waiting.push(vote)
    if (unsent === '') {
      setImmediate(() => {
        socket.write(unsent, 'latin1')
        unsent = ''
      })
    }
    unsent += bytes
  }
  return { socket, ask }
}
