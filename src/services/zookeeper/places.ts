/** The names of nodes, and who is first among them. Pure. */
import { createHash } from 'node:crypto'

export interface Place {
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

export function guidOf(path: string): string {
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
