/** Why a connection fails: one side speaks TLS and the other does not, or what the server says. */
import { once } from 'node:events'
import { createConnection, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { RedisOptions } from 'ioredis'
import { idleClock, withinMs } from './clock.ts'

/** Long enough for a handshake; a dead server delays a first answer no longer than this. */
const LIMIT_MS = 500
const UNASKED_MS = 100
const STEP_MS = 50
/** Nothing listens, or there is no such host: TLS is not what is wrong. */
const OTHER_CAUSES = /ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH/

export class TlsCheck {
  readonly #options: RedisOptions
  #mismatch: string | undefined

  /** @param options are complete, as ioredis keeps them. */
  constructor(options: RedisOptions) {
    this.#options = options
  }

  /** Says what to write instead of `redis://` or `rediss://`. Asks the server until it knows. */
  async explain(detail: string): Promise<string> {
    if (OTHER_CAUSES.test(detail)) return detail
    this.#mismatch ??= await tlsMismatch(this.#options)
    return this.#mismatch ?? detail
  }
}

/** What to write instead; undefined where both sides agree, or none answers within the limit. */
export async function tlsMismatch({
  path,
  host = 'localhost',
  port = 6379,
  tls,
}: RedisOptions): Promise<string | undefined> {
  if (typeof path === 'string' && path !== '') return undefined
  if (tls === undefined) {
    const socket = connectTls({ host, port, rejectUnauthorized: false })
    const speaksTls = (await eventOf(socket, 'secureConnect')) !== undefined
    return speaksTls ? 'the server speaks TLS on this port: use `rediss://`' : undefined
  }
  const socket = createConnection({ host, port })
  socket.write('PING\r\n')
  const [reply] = (await eventOf(socket, 'data')) ?? []
  // Also TLS servers answer this, with an alert.
  const isPlain = /^[+-]/.test(String(reply))
  return isPlain ? 'the server speaks no TLS on this port: use `redis://`' : undefined
}

/** What a server says to a client that has not logged in; undefined where it is silent. */
export async function greetingOf({
  path,
  host = 'localhost',
  port = 6379,
  tls,
}: RedisOptions): Promise<string | undefined> {
  const to = typeof path === 'string' && path !== '' ? { path } : { host, port }
  const socket =
    tls === undefined
      ? createConnection(to)
      : connectTls({ ...tls, ...to, rejectUnauthorized: false })
  // One that takes no more clients says so unasked. What it were sent could lose its words.
  idleClock.after(UNASKED_MS, () => socket.write('PING\r\n'))
  const said = await eventOf(socket, 'data')
  return said && String(said[0]).trim()
}

/** Undefined where it does not come within the limit. The socket is gone afterwards. */
async function eventOf(
  socket: Socket,
  event: 'data' | 'secureConnect',
): Promise<readonly unknown[] | undefined> {
  // One that wants a certificate says so after the handshake, when `once` listens no more.
  socket.on('error', () => undefined)
  const told = once(socket, event).catch(() => null)
  let heard: readonly unknown[] | null | undefined
  // While the process stands still it hears nothing, and that time counts as one step.
  for (let ms = 0; ms < LIMIT_MS && heard === undefined; ms += STEP_MS) {
    heard = await withinMs(idleClock, STEP_MS, told)
  }
  socket.destroy()
  return heard ?? undefined
}
