/** Objects in a store with conditional writes; their metadata has the fencing token. */
import { StaleTokenError } from '../lock-errors.ts'
import { tokenOf } from './token.ts'

/** An object, without its content. */
export interface StoredObject {
  /** Changes with every write. */
  readonly etag: string
  /** From the object's metadata; undefined for an object that was written without. */
  readonly fencingToken?: number
}

/** The three calls of a client library, in the words of this module. */
export interface FencedObjects<Body> {
  /** Undefined where there is no object. */
  head(key: string): Promise<StoredObject | undefined>
  /**
   * Writes if the object still has `etag`, or does not exist where `etag` is undefined, with the
   * token in its metadata. Resolves to false where the condition does not hold (status 412 or 409).
   */
  put(key: string, body: Body, fencingToken: number, etag: string | undefined): Promise<boolean>
}

const MAX_TRIES = 20

/**
 * Writes an object, unless a later lease has written it.
 * @throws StaleTokenError when a later lease has written the object.
 * @example
 * ```ts
 * await fencedPut(objects, lease, 'reports/a.json', '{}')
 * ```
 */
export async function fencedPut<Body>(
  objects: FencedObjects<Body>,
  lease: { readonly fencingToken: number },
  key: string,
  body: Body,
): Promise<void> {
  const fencingToken = tokenOf(lease)
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const stored = await objects.head(key)
    // rule: stale-object-is-not-written
    if ((stored?.fencingToken ?? 0) > fencingToken) {
      throw new StaleTokenError(key, fencingToken, stored?.fencingToken)
    }
    if (await objects.put(key, body, fencingToken, stored?.etag)) return
    // Another write came between: look at its token.
  }
  throw new Error(`\`${key}\` was changed ${MAX_TRIES} times in a row. Write it under one lease.`)
}
