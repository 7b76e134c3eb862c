/**
 * What a session asks of nodes, how it passes over what others may have done to them, and how nodes
 * are named.
 */
import { Exception, type Stat } from 'node-zookeeper-client'
import pRetry from 'p-retry'
import type { Session } from './session.ts'
import { createHash } from 'node:crypto'

/** Each waits until the session is connected again. */
const REPEATS = { retries: Infinity, minTimeout: 10, maxTimeout: 500, randomize: true }

/** A transaction that changes nothing: a quorum commits it, unless a node is gone. */
export async function touch(session: Session, paths: readonly string[]): Promise<void> {
  await session.commit((transaction) => {
    for (const path of paths) transaction.check(path)
  })
}

export async function childrenOf(session: Session, parent: string): Promise<readonly string[]> {
  const found = await session.ask('getChildren', parent).catch(unless(Exception.NO_NODE))
  return (found ?? []) as readonly string[]
}

export async function statOf(session: Session, path: string): Promise<Stat | undefined> {
  return ((await session.ask('exists', path)) ?? undefined) as Stat | undefined
}

export async function ownerOf(session: Session, path: string): Promise<string> {
  try {
    const data = await session.ask('getData', path)
    return `${String(data)} (${guidOf(path).slice(0, 6)}…)`
  } catch {
    return 'a holder that has just left'
  }
}

export async function remove(session: Session, paths: readonly string[]): Promise<void> {
  if (session.isOver) return // Its nodes went with it.
  await Promise.all(
    paths.map((path) =>
      persistently(session, async () => {
        await session.ask('remove', path).catch(unless(Exception.NO_NODE))
      }),
    ),
  )
}

/** A node that is left behind would block its line as long as the session lives. */
export function persistently(session: Session, act: () => Promise<void>): Promise<void> {
  return pRetry(act, { ...REPEATS, shouldRetry: () => !session.isOver })
}

export function isCode(error: unknown, ...codes: readonly number[]): boolean {
  return error instanceof Exception && codes.includes(error.getCode())
}

/** Passes over an error of this code. */
export function unless(code: number): (error: unknown) => undefined {
  return (error) => {
    if (!isCode(error, code)) throw error
  }
}

/** The epoch of the leader and a counter: exact as a number in the first two million epochs. */
export function tokenOf({ czxid }: Stat): number {
  const token = Number(czxid.readBigInt64BE())
  if (Number.isSafeInteger(token)) return token
  throw new Error('czxid is beyond 2^53: this ZooKeeper has had too many leaders for its tokens')
}

interface Place {
  readonly name: string
  readonly sequence: number
}

/** The number of parents that have the nodes of all resources. They stay. */
const BUCKETS = 256
const GUID_LENGTH = 32
/** ZooKeeper appends the number with ten digits, and `-` in front of a negative one. */
const NAME = /^(.+)\.([0-9a-f]{32})\.(-?\d{10})$/

export function bucketOf(resource: string): string {
  const [byte = 0] = createHash('sha256').update(resource).digest()
  return (byte % BUCKETS).toString(16).padStart(2, '0')
}

/** The resource, and a part by which a client finds its node where no answer told the name. */
export function nodePrefix(resource: string, token: string): string {
  const name = Buffer.from(resource).toString('base64url')
  return `${name}.${token.slice(0, GUID_LENGTH)}.`
}

/** Undefined for a node that is none of ours. */
export function resourceOf(name: string): string | undefined {
  const encoded = NAME.exec(name)?.[1]
  return encoded === undefined ? undefined : Buffer.from(encoded, 'base64url').toString()
}

function guidOf(path: string): string {
  return NAME.exec(path)?.[2] ?? ''
}

/**
 * The first place of a resource; with `own` the one right before it, undefined where it is the
 * first. The numbers have 32 bits and wrap, so the difference of two decides.
 */
export function firstOf(
  resource: string,
  names: readonly string[],
  own?: string,
): Place | undefined {
  const prefix = `${Buffer.from(resource).toString('base64url')}.`
  const places = names
    .filter((name) => name.startsWith(prefix))
    .map((name) => ({ name, sequence: Number(NAME.exec(name)?.[3] ?? 0) }))
    .sort((a, b) => (a.sequence - b.sequence) | 0)
  if (own === undefined) return places[0]
  return places[places.findIndex(({ name }) => name === own) - 1]
}
