/**
 * etcd's gateway: JSON over HTTP, one POST a call. Goes on to the next endpoint where one fails.
 */
import { Agent as HttpAgent, request as httpRequest, type ClientRequest } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import { text as textOf } from 'node:stream/consumers'
import type { Clock } from '../../clock.ts'

/** Certificates, as `node:tls` takes them. */
export interface EtcdTls {
  /** The authority that has signed the certificates of the members. */
  readonly ca?: string | Buffer
  /** The certificate of the client. */
  readonly cert?: string | Buffer
  /** Its private key. */
  readonly key?: string | Buffer
  /** The name that the certificates of the members must have. */
  readonly servername?: string
}

export interface GatewayOptions {
  readonly endpoints: readonly string[]
  readonly tls: EtcdTls | undefined
  readonly username: string | undefined
  readonly password: string | undefined
  /** For one call, all endpoints together. */
  readonly timeoutMs: number
  readonly clock: Clock
}

export interface Header {
  readonly cluster_id: string
  readonly revision: string
  readonly raft_term: string
}

/** Numbers of 64 bits are strings; what is zero or empty is left out. */
export type Reply = Readonly<Record<string, unknown>> & { readonly header?: Header }

/** etcd answered, and refused. */
export class EtcdError extends Error {
  readonly code: number

  constructor(message: string, code: number) {
    super(message)
    this.code = code
  }
}

/** Codes of gRPC after which another member may succeed: deadline, unavailable. */
const ELSEWHERE = new Set([4, 14])
const UNAUTHENTICATED = /invalid auth token|user name is empty|revision .* auth.* old/i
const UNAUTHENTICATED_CODE = 16
/** etcd hashes the password slowly on purpose. */
const LOGIN_MS = 10_000

export class EtcdGateway {
  readonly #options: GatewayOptions
  readonly #agents: { readonly http: HttpAgent; readonly https: HttpsAgent }
  readonly #watches = new Set<ClientRequest>()
  #preferred = 0
  #token: Promise<string> | undefined

  constructor(options: GatewayOptions) {
    this.#options = options
    const settings = { keepAlive: true, maxSockets: 64 }
    this.#agents = {
      http: new HttpAgent(settings),
      https: new HttpsAgent({ ...settings, ...options.tls }),
    }
  }

  /** @throws EtcdError for what etcd refused; else the last endpoint's error. */
  async call(path: string, body: object): Promise<Reply> {
    const { username } = this.#options
    if (username === undefined) return this.#anywhere(path, body, undefined)
    const token = (this.#token ??= this.#authenticate(username))
    try {
      return await this.#anywhere(path, body, await token)
    } catch (error) {
      // A simple token lives for five minutes, and no longer than its member.
      if (this.#token === token) this.#token = undefined
      if (!isUnauthenticated(error)) throw error
      return this.#anywhere(path, body, await (this.#token ??= this.#authenticate(username)))
    }
  }

  get endpoints(): readonly string[] {
    return this.#options.endpoints
  }

  /** Asks one member. */
  async callAt(endpoint: string, path: string, body: object): Promise<Reply> {
    const { username, timeoutMs } = this.#options
    const token = username === undefined ? undefined : await this.#authenticate(username)
    return this.#post(endpoint, path, JSON.stringify(body), token, timeoutMs)
  }

  /** Hears every message of a watch; `onEnd` when it ends by itself. Returns how to stop it. */
  watch(body: object, onMessage: (message: Reply) => void, onEnd: () => void): () => void {
    let request: ClientRequest | undefined
    let isStopped = false
    const begin = (token: string | undefined): void => {
      if (isStopped) return
      request = this.#request(this.#endpoint(0), '/v3/watch', token, false)
      const watched = request
      this.#watches.add(watched)
      watched.on('close', () => {
        this.#watches.delete(watched)
        if (!isStopped) onEnd()
      })
      watched.on('error', () => undefined) // 'close' follows.
      watched.on('response', (response) => {
        let rest = ''
        response.setEncoding('utf8')
        response.on('data', (text: string) => {
          const lines = (rest + text).split('\n')
          rest = lines.pop() ?? ''
          for (const line of lines) if (line !== '') onMessage(resultOf(line))
        })
      })
      watched.end(JSON.stringify(body))
    }
    if (this.#token === undefined) begin(undefined)
    else this.#token.then(begin, onEnd)
    return () => {
      isStopped = true
      request?.destroy()
    }
  }

  close(): void {
    for (const watch of this.#watches) watch.destroy()
    this.#agents.http.destroy()
    this.#agents.https.destroy()
  }

  async #authenticate(name: string): Promise<string> {
    const { password = '' } = this.#options
    const path = '/v3/auth/authenticate'
    const reply = await this.#anywhere(path, { name, password }, undefined, LOGIN_MS)
    return String(reply['token'])
  }

  #endpoint(tries: number): string {
    const { endpoints } = this.#options
    return endpoints[(this.#preferred + tries) % endpoints.length] ?? ''
  }

  async #anywhere(
    path: string,
    body: object,
    token: string | undefined,
    timeoutMs = this.#options.timeoutMs,
  ): Promise<Reply> {
    const { endpoints } = this.#options
    const text = JSON.stringify(body)
    let last: unknown
    for (let tries = 0; tries < endpoints.length; tries++) {
      const endpoint = this.#endpoint(0)
      try {
        return await this.#post(endpoint, path, text, token, timeoutMs / endpoints.length)
      } catch (error) {
        last = error
        if (error instanceof EtcdError && !ELSEWHERE.has(error.code)) throw error
        // Calls that run at the same time must not skip a member that works.
        if (this.#endpoint(0) === endpoint) this.#preferred++
      }
    }
    throw last
  }

  #post(
    endpoint: string,
    path: string,
    text: string,
    token: string | undefined,
    timeoutMs: number,
  ): Promise<Reply> {
    const answered = new Promise<string>((resolve, reject) => {
      const request = this.#request(endpoint, path, token, true)
      const late = this.#options.clock.after(timeoutMs, () => {
        request.destroy(new Error(`${endpoint} did not answer within ${Math.round(timeoutMs)} ms`))
      })
      request.on('close', () => {
        late.cancel()
      })
      request.on('error', (error) => {
        reject(new Error(error.message, { cause: error }))
      })
      request.on('response', (response) => {
        textOf(response).then(resolve, reject)
      })
      request.end(text)
    })
    return answered.then(resultOf)
  }

  #request(
    endpoint: string,
    path: string,
    token: string | undefined,
    isPooled: boolean,
  ): ClientRequest {
    const url = new URL(path, endpoint)
    const isTls = url.protocol === 'https:'
    const headers = {
      'content-type': 'application/json',
      ...(token !== undefined && { authorization: token }),
    }
    const agent = isPooled ? (isTls ? this.#agents.https : this.#agents.http) : false
    const options = { method: 'POST', headers, agent }
    return isTls
      ? httpsRequest(url, { ...options, ...this.#options.tls })
      : httpRequest(url, options)
  }
}

/** Streams wrap each message in `result`. */
function resultOf(text: string): Reply {
  const message = JSON.parse(text) as Reply
  const { error, result } = message as {
    error?: string | { readonly message?: string; readonly grpc_code?: number }
    result?: Reply
  }
  if (error === undefined) return result ?? message
  if (typeof error === 'string') throw new EtcdError(error, Number(message['code'] ?? 2))
  throw new EtcdError(error.message ?? 'refused', error.grpc_code ?? 2)
}

function isUnauthenticated(error: unknown): boolean {
  if (!(error instanceof EtcdError)) return false
  return error.code === UNAUTHENTICATED_CODE || UNAUTHENTICATED.test(error.message)
}
