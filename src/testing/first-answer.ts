/** Waits for a server's first answer. */
import { setTimeout as delay } from 'node:timers/promises'
import { Redis } from 'ioredis'

const BETWEEN_TRIES_MS = 15
const ANSWER_LIMIT_MS = 1_000

export interface Expected {
  readonly host: string
  readonly port: number
  readonly password: string | undefined
  /** The process that has to answer; another server may have taken the port before ours. */
  readonly pid?: number
}

/** Tries until the server answers PING (`true`), or until the signal aborts (`false`). */
export async function firstAnswer(expected: Expected, signal: AbortSignal): Promise<boolean> {
  while (!signal.aborted) {
    if (await answers(expected)) return true
    await delay(BETWEEN_TRIES_MS)
  }
  return false
}

async function answers({ host, port, password = '', pid }: Expected): Promise<boolean> {
  const limits = { connectTimeout: ANSWER_LIMIT_MS, commandTimeout: ANSWER_LIMIT_MS }
  const once = {
    lazyConnect: true,
    retryStrategy: () => null,
    enableReadyCheck: false,
    disconnectTimeout: 0,
  }
  const client = new Redis({ host, port, password, ...limits, ...once, maxRetriesPerRequest: 0 })
  client.on('error', () => undefined) // A refused connection is the ordinary case.
  try {
    await client.connect()
    await client.ping()
    return pid === undefined || (await client.info('server')).includes(`\nprocess_id:${pid}\r`)
  } catch {
    return false
  } finally {
    client.disconnect()
  }
}
