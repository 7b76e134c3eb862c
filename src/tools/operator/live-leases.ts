/**
 * The leases of a fleet: names by a bounded scan of each master, then votes of all masters. And
 * keys without a time to live, which a restored backup or PERSIST leaves.
 */
import type { Probe } from './probe.ts'
import type { Keyspace } from '../../redlock/keyspace.ts'
import { getOrInsert } from '../../get-or-insert.ts'
import { couldBeHeld, type Unheld } from '../../missing-votes.ts'
import { heldBy } from '../../redlock/quorum.ts'
import { describeToken } from '../../names.ts'
import { slotNames } from '../../lock/slots.ts'
import { MAX_SLOTS } from '../../slots.ts'
import { valuesOf, type ServerAnswer, type Coverage, type FleetProbe } from './fleet-probe.ts'
import { commandLine } from '../../command-line.ts'
import { findingsOf, type Finding, type ListedLease } from '../../services/service-health.ts'
import { diagnose, restartedIn } from './diagnosis.ts'
import { globEscape } from './glob.ts'
import { surveyFleet } from './survey.ts'

export interface LiveLease extends Omit<ListedLease, 'fencingToken'> {
  /**
   * `held`: a quorum of the masters has its key. `leftover`: fewer have, so it is no lease: what
   * remains of an attempt or of a holder that died. `unknown`: masters that do not answer,
   * or have restarted and may have forgotten, might make it a quorum.
   */
  readonly state: 'held' | 'leftover' | 'unknown'
  /** What a quorum agrees on; undefined unless it is held. */
  readonly fencingToken: number | undefined
  /** Until fewer than a quorum have its key; for a leftover, until the last one is gone. */
  readonly freeInMs: number
  readonly votes: number
}

/** With fewer than a quorum of answers the list is not complete. */
export interface LiveLeases extends Coverage {
  readonly leases: readonly LiveLease[]
  /** There are, or may be, more than were asked for or looked at. */
  readonly truncated: boolean
}

export interface LeaseSearch {
  /** Glob over resource names. @defaultValue '*' */
  readonly match?: string
  readonly limit: number
  /** The most keys that are looked at on each master. @defaultValue 1 000 000 */
  readonly maxScanned?: number
}

export interface KeyView {
  readonly resource: string
  readonly token: string
  readonly ttlMs: number
  readonly counter: number
}

const MAX_SCANNED = 1_000_000

export async function liveLeases(fleet: FleetProbe, search: LeaseSearch): Promise<LiveLeases> {
  const found = await fleet.each((probe) => findNames(probe, fleet.keys, search))
  const names = new Set(valuesOf(found).flatMap((one) => one.names))
  const wanted = [...names].sort().slice(0, search.limit)
  const views = await fleet.each((probe) => readLeases(probe, fleet.keys, wanted))
  return {
    leases: await leasesIn(fleet, views),
    ...fleet.coverage(found, views),
    truncated: names.size > search.limit || valuesOf(found).some(({ complete }) => !complete),
  }
}

async function findNames(
  probe: Probe,
  keys: Keyspace,
  { match = '*', limit, maxScanned = MAX_SCANNED }: LeaseSearch,
): Promise<{ readonly names: readonly string[]; readonly complete: boolean }> {
  const pattern = keys.leasePattern.slice(0, -1) + match
  const prefixLength = keys.lease('').length
  const names = new Set<string>()
  const complete = await probe.scan(pattern, maxScanned, (page) => {
    for (const key of page) names.add(key.slice(prefixLength))
    // One more than wanted says that there are more.
    return names.size > limit && 'enough'
  })
  return { names: [...names], complete }
}

/** The lease keys of these resources on one master. */
async function readLeases(
  probe: Probe,
  keys: Keyspace,
  names: readonly string[],
): Promise<readonly KeyView[]> {
  const found = await probe.values(names.flatMap((name) => [keys.lease(name), keys.fence(name)]))
  return names.flatMap((resource, index) => {
    const [[token, ttlMs] = ['', 0], [counter] = ['']] = found.slice(2 * index)
    // It may have gone since the scan, or was never here.
    return token === '' ? [] : [{ resource, token, ttlMs, counter: Number(counter) }]
  })
}

/** What a restarted master may have forgotten is no leftover. */
async function leasesIn(
  fleet: FleetProbe,
  views: readonly ServerAnswer<readonly KeyView[]>[],
): Promise<readonly LiveLease[]> {
  const found = mergeLeases(views, fleet.quorum)
  if (!found.some(({ state }) => state === 'leftover')) return found
  return mergeLeases(views, fleet.quorum, restartedIn(diagnose(await surveyFleet(fleet))))
}

/** Counts votes by resource and token. Pure. */
export function mergeLeases(
  answers: readonly ServerAnswer<readonly KeyView[]>[],
  quorum: number,
  restarted: readonly string[] = [],
): readonly LiveLease[] {
  const groups = new Map<string, KeyView[]>()
  for (const view of valuesOf(answers).flat()) {
    getOrInsert(groups, JSON.stringify([view.resource, view.token]), () => []).push(view)
  }
  const silent = answers.filter(({ ok }) => !ok).length
  const ofRestarted = valuesOf(answers.filter(({ master }) => restarted.includes(master)))
  const keys = ofRestarted.map((views) => new Set(views.map(({ resource }) => resource)))
  return [...groups.values()]
    .map((views) => {
      const forgetful = keys.filter((known) => !known.has(views[0]?.resource ?? '')).length
      return leaseOf(views, quorum, { votes: views.length, silent, forgetful })
    })
    .sort((a, b) =>
      a.resource < b.resource ? -1 : a.resource > b.resource ? 1 : b.votes - a.votes,
    )
}

function leaseOf(views: readonly KeyView[], quorum: number, unheld: Unheld): LiveLease {
  const [{ resource, token }] = views as [KeyView]
  const { votes } = unheld
  const held = heldBy(views, quorum)
  const unsettled = couldBeHeld(unheld, quorum) ? 'unknown' : 'leftover'
  return {
    resource,
    state: held === undefined ? unsettled : 'held',
    holder: describeToken(token),
    fencingToken: held?.fencingToken,
    freeInMs: held?.freeInMs ?? Math.max(...views.map(({ ttlMs }) => ttlMs)),
    votes,
  }
}

/**
 * The slots of a resource (`gpu#1`, `gpu#2`, …) that a master has a key of, in the order of their
 * numbers. Only callers know how many there are, so every one that there can be is read.
 */
export async function slotsOf(fleet: FleetProbe, resource: string): Promise<readonly LiveLease[]> {
  const names = slotNames(resource, MAX_SLOTS)
  const views = await fleet.each((probe) => readLeases(probe, fleet.keys, names))
  const numeric = { numeric: true }
  return [...(await leasesIn(fleet, views))].sort(
    (a, b) => a.resource.localeCompare(b.resource, 'en', numeric) || b.votes - a.votes,
  )
}

/** The most keys that are looked at on each master to find those that never expire. */
const MAX_LEAKS_SCANNED = 100_000
/** The most of them that are named of each master. */
const MAX_NAMED = 5
const FIX =
  '`bullmq-redlock release --yes NAME` for a lease, `PEXPIRE KEY 86400000` for a fence, ' +
  '`DEL KEY` for the others'

export async function checkLeaks(fleet: FleetProbe): Promise<readonly Finding[]> {
  const answers = await fleet.each((probe) => immortalKeys(probe, fleet.namespace))
  return answers.flatMap((answer) =>
    findingsOf(answer.master, (report) => {
      if (answer.ok) {
        const keys = answer.value
        if (keys.length === 0) return
        const named = keys.slice(0, MAX_NAMED).join(', ')
        const more = keys.length > MAX_NAMED ? `, and ${keys.length - MAX_NAMED} more` : ''
        report('warning', 'no-expiry', `keys that never expire: ${named}${more}`, FIX)
      } else if (answer.problem.startsWith('NOPERM')) {
        const fact = `keys that never expire were not looked for: ${answer.problem}`
        report('note', 'no-scan', fact, 'give this user the rights to SCAN and PTTL')
      }
    }),
  )
}

/** Of the leases that were looked at. */
export function checkLeases({ leases }: LiveLeases): readonly Finding[] {
  return findingsOf('fleet', (report) => {
    for (const { resource, holder } of leases.filter(({ freeInMs }) => freeInMs < 0)) {
      const fact = `the lease of ${holder} on \`${resource}\` never ends`
      report('warning', 'no-expiry', fact, commandLine`release --yes ${resource}`)
    }
  })
}

/** All but the enrolment, the one key that lives as long as its master. */
async function immortalKeys(probe: Probe, namespace: string): Promise<readonly string[]> {
  const own = /^(?:(?:lease|fence|wait|next|tomb):|flag$)/
  const found = new Set<string>()
  await probe.scan(`${globEscape(namespace)}:*`, MAX_LEAKS_SCANNED, async (page) => {
    const keys = page.filter((key) => own.test(key.slice(namespace.length + 1)))
    const values = await probe.values(keys)
    for (const [index, key] of keys.entries()) if (values[index]?.[1] === -1) found.add(key)
  })
  return [...found].sort()
}
