/**
 * Which requests are answered. Four rules, in this order:
 *
 *   1. a request over loopback must name this machine, or an allowed host: else a foreign
 *      page, whose name was made to point to 127.0.0.1, could read everything (DNS rebinding)
 *   2. pages of other origins get no data: they could not read it, but could hold all streams open
 *   3. with a token, or with the application's own `authorize`, a request must pass it
 *   4. without either, only requests from this machine are answered, and none through a proxy
 *
 * To act needs more: the operator's token, or a name from the application's own `operator`; and a
 * request that no page of another origin can send.
 */
import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { refuse } from '../../options.ts'
import { sleep, systemClock } from '../../clock.ts'

/** Which requests the dashboard answers. */
export interface AccessOptions {
  /**
   * It gives access: as `Authorization: Bearer …`, or typed into the page's login. At least 16
   * characters. Without it, and without `authorize`, only connections from this machine are
   * answered.
   */
  readonly token?: string
  /**
   * A user who has it may look and act: retry, skip and cancel jobs, pause and limit resources,
   * release leases. At least 16 characters, and not `token`. Without it, and without `operator`,
   * the page only reads.
   */
  readonly operatorToken?: string
  /** For an application that has its own login: whether this request is answered. */
  readonly authorize?: (request: IncomingMessage) => boolean | Promise<boolean>
  /**
   * For an application that has its own login: the name of the user who may act, which is logged
   * with each action; undefined for one who may only look.
   */
  readonly operator?: (request: IncomingMessage) => string | undefined | Promise<string | undefined>
  /**
   * Names, without port, under which a proxy on this machine reaches the page:
   * `['ops.example.com']`.
   */
  readonly allowedHosts?: readonly string[]
}

export type AccessVerdict = 'allowed' | 'wrong host' | 'foreign page' | 'login' | 'denied'

export const MIN_TOKEN_LENGTH = 16
const COOKIE = 'bullmq-redlock-dashboard'
const MAX_WHO = 64
/** Who acts with a token and says no name. */
const UNNAMED = 'operator'
const COOKIE_SECONDS = 12 * 3_600
const THIS_MACHINE = ['localhost', '127.0.0.1', '[::1]']

export class Access {
  readonly #options: AccessOptions
  readonly #allowedHosts: readonly string[]

  /** @throws TypeError for a bad option. */
  constructor(options: AccessOptions) {
    const { token, operatorToken, authorize, operator, allowedHosts = [] } = options
    checkToken('token', token)
    checkToken('operatorToken', operatorToken)
    if (token !== undefined && token === operatorToken) {
      throw new TypeError('Expected `operatorToken` to be another text than `token`')
    }
    for (const [name, value] of Object.entries({ operator, authorize })) {
      const isFunction = value === undefined || typeof value === 'function'
      if (!isFunction) refuse(name, 'a function of the request', value)
    }
    if (!Array.isArray(allowedHosts) || !allowedHosts.every((host) => typeof host === 'string')) {
      refuse('allowedHosts', 'a list of host names', allowedHosts)
    }
    this.#options = options
    this.#allowedHosts = allowedHosts.map((host) => host.toLowerCase())
  }

  async of(request: IncomingMessage): Promise<AccessVerdict> {
    if (!this.#isHostAllowed(request)) return 'wrong host'
    if (isFromForeignPage(request)) return 'foreign page'
    const { token, authorize } = this.#options
    if (authorize !== undefined) return (await authorize(request)) ? 'allowed' : 'denied'
    if (this.#sessionIn(request) !== undefined) return 'allowed'
    if (token === undefined && isFromThisMachine(request)) return 'allowed'
    return this.hasLogin ? 'login' : 'denied'
  }

  get hasLogin(): boolean {
    return this.#options.token !== undefined || this.hasOperatorLogin
  }

  get hasOperatorLogin(): boolean {
    return this.#options.operatorToken !== undefined
  }

  /** The name of a user who may act; undefined for one who may only look. */
  async operatorOf(request: IncomingMessage): Promise<string | undefined> {
    return (await this.#options.operator?.(request)) ?? this.#sessionIn(request)?.operator
  }

  /** Whether this is a token. Takes as long for a wrong one as for the right one. */
  accepts(token: string): boolean {
    return this.#roleOf(token) !== undefined
  }

  /** Whether the request tries a token in its header, and it is the wrong one. */
  triesWrongToken({ headers }: IncomingMessage): boolean {
    const bearer = bearerOf(headers)
    return this.hasLogin && bearer !== undefined && !this.accepts(bearer)
  }

  /**
   * A `Set-Cookie` for a browser that has logged in. The token cannot be read from it.
   * @param who the name that the operator gave.
   */
  cookie(token: string, who: string, path: string, secure: boolean): string {
    const name = who.trim().slice(0, MAX_WHO) || UNNAMED
    const session = this.#session(this.#roleOf(token) ?? 'viewer', name)
    const attributes = `Path=${path}; Max-Age=${COOKIE_SECONDS}; HttpOnly; SameSite=Strict`
    return `${COOKIE}=${session ?? ''}; ${attributes}${secure ? '; Secure' : ''}`
  }

  #roleOf(token: string): 'viewer' | 'operator' | undefined {
    const isOperator = isSame(token, this.#options.operatorToken)
    const isViewer = isSame(token, this.#options.token)
    return isOperator ? 'operator' : isViewer ? 'viewer' : undefined
  }

  /** Undefined without a session. `operator` is the name of one who may act. */
  #sessionIn({ headers }: IncomingMessage): { readonly operator?: string } | undefined {
    const bearer = bearerOf(headers)
    if (bearer !== undefined) {
      const role = this.#roleOf(bearer)
      return role && (role === 'operator' ? { operator: UNNAMED } : {})
    }
    const session = cookieIn(headers.cookie)
    if (session === undefined) return undefined
    const who = Buffer.from(session.split('.')[0] ?? '', 'base64url').toString()
    if (isSame(session, this.#session('viewer', who))) return {}
    return isSame(session, this.#session('operator', who)) ? { operator: who } : undefined
  }

  /** Undefined where there is no token for this role. */
  #session(role: 'viewer' | 'operator', who: string): string | undefined {
    const { token, operatorToken } = this.#options
    const key = role === 'operator' ? operatorToken : token
    const signature =
      key && createHmac('sha256', key).update(`${COOKIE} ${who}`).digest('base64url')
    return signature && `${Buffer.from(who).toString('base64url')}.${signature}`
  }

  #isHostAllowed({ headers, socket }: IncomingMessage): boolean {
    const names = this.#allowedHosts
    if (!isLoopback(socket.localAddress) && names.length === 0) return true
    const host = (headers.host ?? '').toLowerCase().replace(/:\d+$/, '')
    return names.includes(host) || (isLoopback(socket.localAddress) && THIS_MACHINE.includes(host))
  }
}

function checkToken(name: string, token: unknown): void {
  if (token === undefined || (typeof token === 'string' && token.length >= MIN_TOKEN_LENGTH)) return
  const got = typeof token === 'string' ? `one of ${token.length} characters` : typeof token
  const expected = `a string of at least ${MIN_TOKEN_LENGTH} characters`
  throw new TypeError(`Expected \`${name}\` to be ${expected}, got ${got}`)
}

/**
 * Whether no page of another origin can have sent this. A form cannot send JSON; a script of
 * another origin may send it only after a question that is not answered here. A browser also says
 * where a request comes from, and what is no browser has to send the token itself.
 */
export function isOwnRequest({ headers }: IncomingMessage): boolean {
  if (!/^application\/json\b/.test(headers['content-type'] ?? '')) return false
  return bearerOf(headers) !== undefined || senderOf(headers) === 'own page'
}

/** Whether an address, or a name to listen at, belongs to this machine alone. */
export function isLoopback(address: string | undefined): boolean {
  return /^(localhost|::1|(::ffff:)?127\.\d+\.\d+\.\d+)$/.test(address ?? '')
}

/** A proxy on this machine passes on what others ask. Each adds at least one of these. */
const PROXY_HEADERS = `
  forwarded via x-real-ip x-client-ip x-cluster-client-ip x-original-host x-original-forwarded-for
  x-envoy-external-address x-amzn-trace-id x-azure-clientip cf-connecting-ip cf-ray true-client-ip
  fastly-client-ip fly-client-ip cdn-loop x-proxyuser-ip x-appengine-user-ip x-request-start x-scheme
`
  .trim()
  .split(/\s+/)

function isFromThisMachine({ socket, headers }: IncomingMessage): boolean {
  const proxied = Object.keys(headers).some(
    (name) => name.startsWith('x-forwarded') || PROXY_HEADERS.includes(name),
  )
  return isLoopback(socket.remoteAddress) && !proxied
}

/** A link on another page may lead to this one, so a navigation is answered. */
function isFromForeignPage({ headers }: IncomingMessage): boolean {
  return headers['sec-fetch-mode'] !== 'navigate' && senderOf(headers) === 'foreign page'
}

/**
 * A browser says where a request comes from: in `Sec-Fetch-Site`, and in `Origin` where a script
 * asks. Undefined where nothing is said.
 */
function senderOf(headers: IncomingMessage['headers']): 'own page' | 'foreign page' | undefined {
  const { origin, host, 'sec-fetch-site': site } = headers
  if (site === 'none' || (site ?? origin) === undefined) return undefined
  const isOwn =
    site === undefined
      ? URL.canParse(origin ?? '') && new URL(origin ?? '').host === host
      : site === 'same-origin'
  return isOwn ? 'own page' : 'foreign page'
}

function bearerOf({ authorization = '' }: IncomingMessage['headers']): string | undefined {
  return /^Bearer +(\S+)$/i.exec(authorization)?.[1]
}

function cookieIn(header: string | undefined): string | undefined {
  const found = (header ?? '').split(/; */).find((pair) => pair.startsWith(`${COOKIE}=`))
  return found?.slice(COOKIE.length + 1)
}

/** Digests have one length, so the time that it takes tells nothing. */
function isSame(a: string, b: string | undefined): boolean {
  if (b === undefined) return false
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(a), digest(b))
}

const DELAY_MS = 500
const MAX_AT_A_TIME = 5

/** Wrong tokens are answered late, a few at a time for an address: guessing takes too long. */
export class WrongTokens {
  readonly #waiting = new Map<string, number>()

  /** Whether this address has the most wrong tokens waiting, so the next one is refused unread. */
  isBlocked(address = ''): boolean {
    return (this.#waiting.get(address) ?? 0) >= MAX_AT_A_TIME
  }

  /** Resolves when the answer to a wrong token may go out. */
  async delay(address = ''): Promise<void> {
    this.#count(address, 1)
    await sleep(systemClock, DELAY_MS)
    this.#count(address, -1)
  }

  #count(address: string, change: 1 | -1): void {
    const count = (this.#waiting.get(address) ?? 0) + change
    if (count === 0) this.#waiting.delete(address)
    else this.#waiting.set(address, count)
  }
}
