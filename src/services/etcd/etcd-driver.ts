/**
 * Leases on keys of etcd. A claim is one etcd lease and one key a resource, made in one transaction
 * that finds all the keys absent. Its fencing token is the revision of that transaction.
 *
 * Not the Lock RPC: it grants under a lease that may be over. An extension renews the etcd lease,
 * and then finds the keys unchanged by a read that needs a quorum, in the same term of the same
 * leader. So neither a deposed leader nor a key deleted by hand passes for a renewal.
 */
import type { Inspection } from '../../lock/inspection.ts'
import type { Claim, ClaimOutcome, Listening, LockDriver, Renewal, Wish } from '../lock-driver.ts'
import { describeToken } from '../../names.ts'
import {
  inspectionOf,
  healthOf,
  findingsOf,
  type ListedLease,
  type ServiceHealth,
  type ServerAnswers,
  type Finding,
} from '../service-health.ts'
import type { EtcdGateway } from './gateway.ts'
import { EtcdError, type Reply } from './replies.ts'

export interface EtcdClaim extends Claim {
  readonly keys: readonly string[]
  readonly leaseId: string
  readonly revision: string
}

interface KeyValue {
  readonly key: string
  readonly value: string
  readonly mod_revision: string
  readonly lease?: string
}

const NOT_FOUND = /requested lease not found/
const EXISTS = /lease already exists/

export class EtcdDriver implements LockDriver<EtcdClaim> {
  readonly name = 'etcd'
  readonly #gateway: EtcdGateway
  readonly #namespace: string
  /** Whose keys may have been written. */
  readonly #sent = new WeakSet<Wish>()
  /** The largest that any answer has had. */
  #revision = 0

  constructor(gateway: EtcdGateway, namespace: string) {
    this.#gateway = gateway
    // The first slash of a key ends the namespace.
    // rule: namespaces-do-not-nest
    this.#namespace = namespace.replace(/[%/]/g, encodeURIComponent)
  }

  async ready(): Promise<void> {
    await this.#call('/v3/kv/range', { key: this.#key('') })
  }

  async acquire(wish: Wish): Promise<ClaimOutcome<EtcdClaim>> {
    const keys = wish.resources.map((resource) => this.#key(resource))
    const leaseId = leaseIdOf(wish.token)
    const leaseMs = await this.#grantLease(leaseId, wish.leaseMs)
    this.#sent.add(wish)
    const outcome = await this.#put(wish, keys, leaseId, leaseMs)
    if (outcome.status !== 'granted') await this.#revoke(leaseId)
    return outcome
  }

  async extend({ keys, leaseId, revision }: EtcdClaim): Promise<Renewal> {
    const renewed = await this.#call('/v3/lease/keepalive', { ID: leaseId })
    if (Number(renewed['TTL'] ?? 0) <= 0) return 'gone'
    const found = await this.#call('/v3/kv/txn', {
      compare: keys.map((key) => compare(key, 'MOD', { mod_revision: revision })),
      // Without a read in it etcd would answer from memory that may be old.
      success: [{ request_range: { key: keys[0], keys_only: true } }],
    })
    if (found['succeeded'] !== true) return 'gone'
    if (found.header?.raft_term !== renewed.header?.raft_term) {
      throw new Error('the leader of etcd changed during the renewal')
    }
    return {}
  }

  /** Revoking the lease deletes its keys, and those of no other lease. */
  async release({ leaseId }: EtcdClaim): Promise<void> {
    await this.#revoke(leaseId)
  }

  /** A transaction that arrives later names a lease that is gone, and is refused. */
  async abandon(wish: Wish): Promise<void> {
    // A lease without a key keeps nothing from others, and ends by itself.
    // rule: attempt-without-a-key-is-not-undone
    if (this.#sent.has(wish)) await this.#revoke(leaseIdOf(wish.token))
  }

  listen(resources: readonly string[], _waiter: string, wake: () => void): Listening {
    let stops: (() => void)[] = []
    const stop = (): void => {
      for (const one of stops.splice(0)) one()
    }
    const heard = (message: Reply): void => {
      const isChange = 'events' in message
      // It may have been compacted meanwhile.
      if (isChange || message['canceled'] === true) stop()
      if (isChange) wake()
    }
    const again = (): void => {
      if (stops.length > 0) return
      const from = { start_revision: String(this.#revision + 1), filters: ['NOPUT'] }
      stops = resources.map((resource) => {
        const watched = { create_request: { key: this.#key(resource), ...from } }
        // An end tells of no change. Until the waiter looks again by itself, there is no watch.
        // rule: ended-watch-wakes-no-waiter
        return this.#gateway.watch(watched, heard, stop)
      })
    }
    again()
    return { again, stop }
  }

  async inspect(resource: string): Promise<Inspection> {
    const reply = await this.#call('/v3/kv/range', { key: this.#key(resource) })
    const master = `${this.name} (cluster ${this.#gateway.clusterId ?? '?'})`
    const [kv] = (reply['kvs'] ?? []) as readonly KeyValue[]
    if (kv?.lease === undefined) return inspectionOf(master, resource, undefined)
    return inspectionOf(master, resource, listed(resource, kv, await this.#leftMs(kv.lease)))
  }

  async leases(limit: number): Promise<readonly ListedLease[]> {
    const prefix = Buffer.from(`${this.#namespace}/lease/`)
    const end = Buffer.from(prefix)
    end[end.length - 1] = (end.at(-1) ?? 0) + 1
    const range = { key: prefix.toString('base64'), range_end: end.toString('base64') }
    const { kvs = [] } = await this.#call('/v3/kv/range', { ...range, limit: String(limit) })
    const found = kvs as readonly KeyValue[]
    const leaseIds = [...new Set(found.map(({ lease }) => lease ?? ''))]
    const lifetimes = new Map(
      await Promise.all(leaseIds.map(async (ID) => [ID, await this.#leftMs(ID)] as const)),
    )
    return found.map((kv) => {
      const resource = Buffer.from(kv.key, 'base64').subarray(prefix.length).toString()
      return listed(resource, kv, lifetimes.get(kv.lease ?? '') ?? 0)
    })
  }

  /** The members, each by itself. */
  health(): Promise<ServiceHealth> {
    const servers = this.#gateway.endpoints.map((endpoint) => {
      const server = new URL(endpoint).host
      const ask = async (): Promise<ServerAnswers> => {
        const status = (await this.#gateway.statusOf(endpoint)) as Status
        const { version = '?', leader, header } = status
        const role = leader === header?.member_id ? 'leader' : 'follower'
        return { version, role, findings: checked(server, status) }
      }
      return [server, ask] as const
    })
    // It needs a quorum.
    return healthOf(this.name, new Map(servers), () => this.ready())
  }

  close(): Promise<void> {
    this.#gateway.close()
    return Promise.resolve()
  }

  /**
   * @returns what etcd granted: whole seconds, and more than was asked for where that is too short.
   */
  async #grantLease(ID: string, leaseMs: number): Promise<number> {
    const TTL = Math.ceil(leaseMs / 1_000)
    const reply = await this.#call('/v3/lease/grant', { ID, TTL }).catch((error: unknown) => {
      // The first try arrived and its answer did not.
      if (!(error instanceof EtcdError) || !EXISTS.test(error.message)) throw error
      return this.#call('/v3/lease/keepalive', { ID })
    })
    return Number(reply['TTL'] ?? 0) * 1_000
  }

  async #leftMs(ID: string): Promise<number> {
    const reply = await this.#call('/v3/lease/timetolive', { ID })
    return Math.max(0, Number(reply['TTL'] ?? 0) * 1_000)
  }

  async #put(
    wish: Wish,
    keys: readonly string[],
    leaseId: string,
    leaseMs: number,
  ): Promise<ClaimOutcome<EtcdClaim>> {
    const value = encoded(wish.token)
    const before = this.#revision
    const reply = await this.#call('/v3/kv/txn', {
      compare: keys.map((key) => compare(key, 'CREATE', { create_revision: '0' })),
      success: keys.map((key) => ({ request_put: { key, value, lease: leaseId } })),
      failure: keys.map((key) => ({ request_range: { key } })),
    })
    let revision = reply['succeeded'] === true ? reply.header?.revision : undefined
    if (revision === undefined) {
      const found = (reply['responses'] ?? []) as readonly {
        response_range?: { kvs?: readonly KeyValue[] }
      }[]
      const held = found.flatMap(({ response_range }) => response_range?.kvs ?? [])
      const mine = held.filter((kv) => kv.value === value)
      if (mine.length < keys.length) return refused(wish, keys, held[0], leaseMs)
      // The transaction was sent twice: the first one did it.
      revision = mine[0]?.mod_revision ?? ''
    }
    const fencingToken = Number(revision)
    if (fencingToken <= before && reply['succeeded'] === true) {
      await this.#revoke(leaseId)
      throw new Error(
        `etcd went back from revision ${before} to ${fencingToken}: it lost data. ` +
          'Stop its clients for one `maxLeaseMs`, clear the stored fencing tokens, and start them.',
      )
    }
    return { status: 'granted', claim: { fencingToken, leaseMs, keys, leaseId, revision } }
  }

  async #revoke(ID: string): Promise<void> {
    try {
      await this.#call('/v3/lease/revoke', { ID })
    } catch (error) {
      if (!(error instanceof EtcdError) || !NOT_FOUND.test(error.message)) throw error
    }
  }

  async #call(path: string, body: object): Promise<Reply> {
    const reply = await this.#gateway.call(path, body)
    this.#revision = Math.max(this.#revision, Number(reply.header?.revision ?? 0))
    return reply
  }

  #key(resource: string): string {
    return encoded(`${this.#namespace}/lease/${resource}`)
  }
}

function compare(key: string, target: 'CREATE' | 'MOD', value: object): object {
  return { key, target, result: 'EQUAL', ...value }
}

function encoded(text: string): string {
  return Buffer.from(text).toString('base64')
}

/** A positive number of 60 bits, random as the token is. */
function leaseIdOf(token: string): string {
  return BigInt(`0x1${token.slice(1, 15)}`).toString()
}

function refused(
  wish: Wish,
  keys: readonly string[],
  held: KeyValue | undefined,
  leaseMs: number,
): ClaimOutcome<EtcdClaim> {
  const [first = ''] = wish.resources
  if (held === undefined) return { status: 'split', resource: first }
  const resource = wish.resources[keys.indexOf(held.key)] ?? first
  return { status: 'taken', resource, holder: holderOf(held), retryAfterMs: leaseMs }
}

function listed(resource: string, kv: KeyValue, freeInMs: number): ListedLease {
  return { resource, holder: holderOf(kv), fencingToken: Number(kv.mod_revision), freeInMs }
}

function holderOf({ value }: KeyValue): string {
  return describeToken(Buffer.from(value, 'base64').toString())
}

/** The first version without that fault. */
const FIXED = '3.5.10'

interface Status {
  readonly version?: string
  readonly leader?: string
  readonly header?: { readonly member_id?: string }
  readonly errors?: readonly string[]
}

function checked(where: string, { version = '', leader, errors = [] }: Status): readonly Finding[] {
  return findingsOf(where, (report) => {
    const disarm = 'free space and disarm the alarm: etcdctl defrag, etcdctl alarm disarm'
    for (const fact of errors) report('error', 'alarm', fact, disarm)
    if (leader === undefined || leader === '0') {
      const fix = 'check that a majority of the members runs and that they reach each other'
      report('error', 'no-leader', 'sees no leader', fix)
    }
    if (version.localeCompare(FIXED, 'en', { numeric: true }) < 0) {
      const fact = `etcd ${version}: a leader that was frozen may revoke leases that were renewed`
      report('warning', 'old-version', fact, `use ${FIXED} or newer (etcd issue 15247)`)
    }
  })
}
