/** One POST to one endpoint of etcd's gateway, and what its answer means. */
import { Agent as HttpAgent, request as httpRequest, type ClientRequest } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import { text as textOf } from 'node:stream/consumers'
import { deadline, type Clock } from '../../clock.ts'

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

export interface HttpOptions {
  readonly tls: EtcdTls | undefined
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

export class EtcdHttp {
  readonly #options: HttpOptions
  readonly #agents: { readonly http: HttpAgent; readonly https: HttpsAgent }

  constructor(options: HttpOptions) {
    this.#options = options
    const settings = { keepAlive: true, maxSockets: 64 }
    this.#agents = {
      http: new HttpAgent(settings),
      https: new HttpsAgent({ ...settings, ...options.tls }),
    }
  }

  post(
    endpoint: string,
    path: string,
    text: string,
    token: string | undefined,
    timeoutMs: number,
  ): Promise<Reply> {
    return new Promise<string>((resolve, reject) => {
      const request = this.request(endpoint, path, token, true)
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
    }).then(resultOf)
  }

  request(
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

  close(): void {
    this.#agents.http.destroy()
    this.#agents.https.destroy()
  }
}

interface RpcStatus {
  readonly message?: unknown
  readonly code?: number
  readonly grpc_code?: number
}

/** The largest of gRPC. */
const MAX_CODE = 16

/**
 * Streams wrap each message in `result`, and an error in `error`. Before etcd 3.6 the other errors
 * have an `error` too, with their message.
 */
export function resultOf(text: string): Reply {
  const said = JSON.parse(text) as Reply & { readonly error?: unknown; readonly result?: Reply }
  const status = (typeof said.error === 'object' ? said.error : said) as RpcStatus
  const code = status.grpc_code ?? status.code ?? 0
  // rule: only-etcd-refuses
  if (code > 0 && code <= MAX_CODE) throw new EtcdError(String(status.message), code)
  return said.result ?? said
}
