/**
 * Name lookups, one at a time for each name. A lookup that no name server answers holds one of the
 * four threads on which Node does all of a process's lookups, for ten seconds and more, and nothing
 * can cancel it. A dead master is tried again every half second: without this, its lookups would
 * fill the threads, and the queue and the healthy masters could not connect either.
 */
import { lookup, type LookupAddress, type LookupOptions } from 'node:dns'
import type { LookupFunction } from 'node:net'

type Answer = (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void
/** Looks a name up; `options.all` is set. */
export type Resolve = (name: string, options: LookupOptions & { all: true }, answer: Answer) => void

export function sharedLookup(resolve: Resolve = lookup): LookupFunction {
  const waiting = new Map<string, Answer[]>()
  return (name, options, callback) => {
    const { family = 0, hints = 0 } = options
    const key = `${name} ${family} ${hints}`
    const answer: Answer = (error, addresses) => {
      const [first] = addresses
      if (error !== null || first === undefined) {
        callback(error ?? new Error(`\`${name}\` has no address`), '', 0)
      } else if (options.all === true) callback(null, addresses)
      else callback(null, first.address, first.family)
    }
    const others = waiting.get(key)
    if (others !== undefined) {
      others.push(answer)
      return
    }
    waiting.set(key, [answer])
    resolve(name, { family, hints, all: true }, (error, addresses) => {
      const answers = waiting.get(key) ?? []
      waiting.delete(key)
      for (const each of answers) each(error, error === null ? addresses : [])
    })
  }
}
