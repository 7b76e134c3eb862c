/**
 * etcd's gateway: JSON over HTTP, one POST a call. Goes on to the next endpoint where one fails.
 *
 * A client belongs to one cluster for good: that of at least half of its endpoints when it asked
 * first. An endpoint of another cluster, such as an address that is used again, has failed.
 */
import { Agent as HttpAgent, request as httpRequest, type ClientRequest } from 'node:http'
import { withinMs, deadline, type Clock } from '../../clock.ts'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import { text as textOf } from 'node:stream/consumers'
import { EtcdError, isUnauthenticated, notOne, resultOf, type Reply } from './replies.ts'

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
  readonly tls: EtcdTls | undefined
  readonly clock: Clock
  readonly endpoints: readonly string[]
  readonly username: string | undefined
  readonly password: string | undefined
  /** For one call, all endpoints together. */
  readonly timeoutMs: number
}

/** Codes of gRPC after which another member may succeed: deadline, unavailable. */
const ELSEWHERE = new Set([4, 14])
/** etcd hashes the password slowly on purpose. */
const LOGIN_MS = 10_000
const STATUS = '/v3/maintenance/status'
/** Longer than any message of a watch. */
const MAX_LINE = 1_000_000

export class EtcdGateway {
  readonly endpoints: readonly string[]
  readonly #options: GatewayOptions
  readonly #agents: { readonly http: HttpAgent; readonly https: HttpsAgent }
  readonly #watches = new Set<ClientRequest>()
  #preferred = 0
  #token: Promise<string> | undefined
  #clusterId: string | undefined
  #joining: Promise<void> | undefined

  constructor(options: GatewayOptions) {
    this.#options = options
    this.endpoints = options.endpoints
    const settings = { keepAlive: true, maxSockets: 64 }
    this.#agents = {
      http: new HttpAgent(settings),
      https: new HttpsAgent({ ...settings, ...options.tls }),
    }
  }

  /** @throws EtcdError for what etcd refused; else the last endpoint's error. */
  async call(path: string, body: object): Promise<Reply> {
    if (this.#clusterId === undefined) {
      await (this.#joining ??= this.#join().finally(() => (this.#joining = undefined)))
    }
    return this.#asUser((token) => this.#anywhere(path, body, token))
  }

  /** Undefined before the first answer. */
  get clusterId(): string | undefined {
    return this.#clusterId
  }

  /** Of one member. Most versions tell it to anyone. */
  async statusOf(endpoint: string, limitMs: number = this.#options.timeoutMs): Promise<Reply> {
    const ask = (token?: string): Promise<Reply> =>
      this.#post(endpoint, STATUS, '{}', token, limitMs)
    return ask().catch((error: unknown) => {
      if (!isUnauthenticated(error)) throw error
      return this.#asUser(ask)
    })
  }

  /** Hears every message of a watch; `onEnd` when it ends by itself. Returns how to stop it. */
  watch(body: object, onMessage: (message: Reply) => void, onEnd: () => void): () => void {
    let request: ClientRequest | undefined
    let isStopped = false
    const begin = (token: string | undefined): void => {
      if (isStopped) return
      request = this.#request(this.#endpoint, '/v3/watch', token, false)
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
          // A proxy sends pages, and a member that shuts down sends an error.
          // rule: bad-line-ends-its-watch
          try {
            if (rest.length > MAX_LINE) throw new Error('a line without an end')
            for (const line of lines) if (line !== '') onMessage(this.#ofCluster(resultOf(line)))
          } catch {
            watched.destroy()
          }
        })
      })
      watched.end(JSON.stringify(body))
    }
    if (this.#token === undefined) begin(undefined)
    else this.#token.then(begin).catch(onEnd)
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

  /** With the token of the user, if there is one. */
  async #asUser(ask: (token: string | undefined) => Promise<Reply>): Promise<Reply> {
    const token = this.#login()
    try {
      return await ask(await token)
    } catch (error) {
      // A simple token lives for five minutes, and no longer than its member.
      // rule: refused-login-is-tried-again
      if (this.#token === token) this.#token = undefined
      if (token === undefined || !isUnauthenticated(error)) throw error
      return ask(await this.#login())
    }
  }

  #login(): Promise<string> | undefined {
    const { username: name, password = '' } = this.#options
    if (name === undefined) return undefined
    if (this.#token !== undefined) return this.#token
    const path = '/v3/auth/authenticate'
    const reply = this.#anywhere(path, { name, password }, undefined, LOGIN_MS)
    return (this.#token = reply.then((said) => String(said['token'])))
  }

  /** @throws Error where no cluster has half of the endpoints: it may be another one. */
  async #join(): Promise<void> {
    const { endpoints, timeoutMs } = this.#options
    const answers = await Promise.allSettled(
      endpoints.map(async (endpoint) => {
        return (await this.statusOf(endpoint, timeoutMs / 2)).header?.cluster_id
      }),
    )
    const ids = answers.map((answer) => (answer.status === 'fulfilled' ? answer.value : undefined))
    const half = (id: string | undefined): boolean =>
      id !== undefined && 2 * ids.filter((other) => other === id).length >= ids.length
    const [id, another] = new Set(ids.filter(half))
    // rule: client-of-one-cluster
    if (id === undefined || another !== undefined) throw notOne(endpoints, answers)
    this.#clusterId = id
    this.#preferred = ids.indexOf(id)
  }

  #ofCluster(reply: Reply): Reply {
    const id = reply.header?.cluster_id
    // What is no answer of etcd, but of a proxy, names no cluster.
    // rule: endpoint-of-another-cluster-has-failed
    if (this.#clusterId !== undefined && this.#clusterId !== id) {
      const said = `cluster ${id ?? '?'} answered instead of ${this.#clusterId}`
      throw new Error(`${said}. Check \`endpoints\`.`)
    }
    return reply
  }

  /** An error names no cluster, so its endpoint is asked for one. A login does not wait for one. */
  async #isElsewhere(endpoint: string, token: string | undefined): Promise<boolean> {
    const { timeoutMs, endpoints } = this.#options
    return this.#post(endpoint, STATUS, '{}', token, timeoutMs / endpoints.length).then(
      () => false,
      (error: unknown) => !(error instanceof EtcdError),
    )
  }

  get #endpoint(): string {
    const { endpoints } = this.#options
    return endpoints[this.#preferred % endpoints.length] ?? ''
  }

  /**
   * Asks one member after the other. One that is late may still answer. A cluster that is slow
   * would answer nothing where each member had only a part of the time.
   */
  async #anywhere(
    path: string,
    body: object,
    token: string | undefined,
    timeoutMs = this.#options.timeoutMs,
  ): Promise<Reply> {
    const { endpoints, clock } = this.#options
    const text = JSON.stringify(body)
    const partMs = timeoutMs / endpoints.length
    const ask = async (endpoint: string, limitMs: number): Promise<() => Reply> => {
      try {
        const reply = await this.#post(endpoint, path, text, token, limitMs)
        return () => reply
      } catch (error) {
        const isRefused = error instanceof EtcdError && !ELSEWHERE.has(error.code)
        if (!isRefused || (await this.#isElsewhere(endpoint, token))) throw error
        return () => {
          throw error
        }
      }
    }
    const asked: Promise<() => Reply>[] = []
    for (let parts = endpoints.length; parts > 0; parts--) {
      const endpoint = this.#endpoint
      const last = ask(endpoint, parts * partMs)
      asked.push(last)
      // rule: member-that-is-late-may-answer
      const first = Promise.race([last, Promise.any(asked)])
      const answer = await withinMs(clock, partMs, first).catch(() => undefined)
      if (answer !== undefined) return answer()
      // Calls that run at the same time must not skip a member that works.
      if (this.#endpoint === endpoint) this.#preferred++
    }
    const answer = await Promise.any(asked).catch((error: unknown) => {
      throw (error as AggregateError).errors.at(-1)
    })
    return answer()
  }

  async #post(
    endpoint: string,
    path: string,
    text: string,
    token: string | undefined,
    timeoutMs: number,
  ): Promise<Reply> {
    const said = await new Promise<string>((resolve, reject) => {
      const request = this.#request(endpoint, path, token, true)
      const late = deadline(this.#options.clock, timeoutMs, () => {
        const { host } = new URL(endpoint)
        request.destroy(new Error(`${host} did not answer within ${Math.round(timeoutMs)} ms`))
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
    return this.#ofCluster(resultOf(said))
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
    const agent = isPooled && (isTls ? this.#agents.https : this.#agents.http)
    const options = { method: 'POST', headers, agent, ...this.#options.tls }
    return isTls ? httpsRequest(url, options) : httpRequest(url, options)
  }
}
