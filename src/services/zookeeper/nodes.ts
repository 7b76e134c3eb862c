/** What a session asks of nodes, and how it passes over what others may have done to them. */
import { Exception, type Stat } from 'node-zookeeper-client'
import pRetry from 'p-retry'
import { guidOf } from './places.ts'
import type { Session } from './session.ts'

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
