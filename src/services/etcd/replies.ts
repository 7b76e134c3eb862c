/** What etcd's gateway answers. */
import { messageOf } from '../../message-of.ts'

const UNAUTHENTICATED = /invalid auth token|user name is empty|revision .* auth.* old/i
const UNAUTHENTICATED_CODE = 16

export function isUnauthenticated(error: unknown): boolean {
  if (!(error instanceof EtcdError)) return false
  return error.code === UNAUTHENTICATED_CODE || UNAUTHENTICATED.test(error.message)
}

interface Header {
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

/** @param answers the id of its cluster, of each endpoint. */
export function notOne(
  endpoints: readonly string[],
  answers: readonly PromiseSettledResult<string | undefined>[],
): Error {
  const said = answers.map((answer, index) => {
    const { host } = new URL(endpoints[index] ?? '')
    if (answer.status === 'fulfilled') return `${host} is of cluster ${answer.value ?? '?'}`
    return `${host}: ${messageOf(answer.reason)}`
  })
  const clusters = new Set(
    answers.flatMap((answer) => (answer.status === 'fulfilled' ? [answer.value] : [])),
  )
  const isRefused = answers.some(
    (answer) => answer.status === 'rejected' && answer.reason instanceof EtcdError,
  )
  const what =
    clusters.size > 1
      ? 'No cluster of etcd has more than half of the `endpoints`. Give those of one cluster.'
      : isRefused
        ? 'Fewer than half of the `endpoints` of etcd let this client in. Check `username` and `password`.'
        : 'Fewer than half of the `endpoints` of etcd answer. Start the others, or mend the network to them.'
  return new Error(`${what} ${said.join('; ')}`)
}
