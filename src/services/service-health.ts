/** What a lock service besides Redis tells people of its leases and its servers. */
import { messageOf } from '../message-of.ts'
import type { Inspection } from '../lock/inspection.ts'

/** A lease as the server of a lock service lists it. */
export interface ListedLease {
  readonly resource: string
  /** `owner` and the beginning of the token. */
  readonly holder: string
  readonly fencingToken: number
  /**
   * Until it ends if it is not extended; the length of a session where the server does not tell how
   * much is left.
   */
  readonly freeInMs: number
}

/** One server as a health check sees it. */
export interface ServerHealth {
  readonly server: string
  readonly version?: string
  /** `leader`, `follower`, `primary`, … */
  readonly role?: string
  readonly problem?: string
}

export interface ServiceHealth {
  readonly service: string
  /** Why no lease can be had now; undefined where one can. */
  readonly problem?: string
  readonly servers: readonly ServerHealth[]
  readonly findings: readonly Finding[]
}

/** The service counts as one master. @param lease undefined where none is held. */
export function inspectionOf(
  master: string,
  resource: string,
  lease: ListedLease | undefined,
): Inspection {
  if (lease === undefined) return { resource, masters: [{ master }] }
  const { holder, fencingToken, freeInMs } = lease
  return {
    resource,
    holder: { name: holder, fencingToken, freeInMs },
    masters: [{ master, holder, ttlMs: freeInMs, counter: fencingToken }],
  }
}

export interface ServerAnswers extends Omit<ServerHealth, 'server'> {
  readonly findings?: readonly Finding[]
}

/** Asks every server by itself; `serves` rejects where no lease can be had. */
export async function healthOf(
  service: string,
  servers: ReadonlyMap<string, () => Promise<ServerAnswers>>,
  serves: () => Promise<unknown>,
): Promise<ServiceHealth> {
  const answers = await Promise.all(
    [...servers].map(async ([server, ask]) => {
      const { findings = [], ...health } = await ask().catch((error: unknown): ServerAnswers => {
        const problem = messageOf(error)
        const fix = 'start it again, and check that this machine and the other servers can reach it'
        const findings = findingsOf(server, (report) => {
          report('error', 'unreachable', `does not answer: ${problem}`, fix)
        })
        return { problem, findings }
      })
      return { health: { server, ...health }, findings }
    }),
  )
  const problem = await serves().then(() => undefined, messageOf)
  return {
    ...{ service, servers: answers.map(({ health }) => health) },
    findings: answers.flatMap(({ findings }) => findings),
    ...(problem !== undefined && { problem }),
  }
}

export interface Finding {
  /**
   * `error`: something does not work or must not be so. `warning`: it soon may. `note`: good to
   * know, and healthy.
   */
  readonly severity: 'error' | 'warning' | 'note'
  /** Stable, for machines: `unreachable`, `evicts`, … */
  readonly code: string
  /** The server's `host:port`, `fleet`, `this machine`, or `queue host:port`. */
  readonly where: string
  readonly fact: string
  /** What to do, in one line. */
  readonly fix: string
}

export type Report = (
  severity: Finding['severity'],
  code: string,
  fact: string,
  fix: string,
) => void

/** What `check` reports about one server, or about the fleet. */
export function findingsOf(where: string, check: (report: Report) => void): readonly Finding[] {
  const found: Finding[] = []
  check((severity, code, fact, fix) => {
    found.push({ severity, code, where, fact, fix })
  })
  return found
}
