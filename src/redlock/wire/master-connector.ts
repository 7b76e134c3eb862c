/**
 * How ioredis reaches a lock master: as it does by itself, but with shared name lookups.
 *
 * Name lookups, one at a time for each name. A lookup that no name server answers holds one of the
 * four threads on which Node does all of a process's lookups, for ten seconds and more, and nothing
 * can cancel it. A dead master is tried again every half second: without this, its lookups would
 * fill the threads, and the queue and the healthy masters could not connect either.
 */
import { lookup as resolveName, type LookupAddress, type LookupOptions } from 'node:dns'
import { createConnection, type LookupFunction } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { AbstractConnector, RedisOptions } from 'ioredis'
import { ofIoredis } from '../../ioredis.ts'

const lookup = sharedLookup()

type Connector = NonNullable<RedisOptions['Connector']>

export const masterConnector: () => Connector = ofIoredis(({ AbstractConnector: Base }) => {
  class MasterConnector extends Base {
    readonly #options: RedisOptions

    /** @param options are complete: ioredis made them of an address and the settings. */
    constructor(options: unknown) {
      const complete = options as RedisOptions
      super(complete.disconnectTimeout ?? 0)
      this.#options = complete
    }

    override async connect(): ReturnType<AbstractConnector['connect']> {
      Object.assign(this, { connecting: true })
      await Promise.resolve() // Who disconnects in this very turn is heard.
      if (!this.connecting) throw new Error('Connection is closed.')
      this.stream = open(this.#options)
      this.stream.once('error', (error: Error) => {
        this.firstError = error
      })
      return this.stream
    }
  }
  return MasterConnector
})

function open(options: RedisOptions): ReturnType<typeof createConnection> {
  const { path, port = 6379, host = 'localhost', family, tls } = options
  const target =
    typeof path === 'string' && path !== ''
      ? { path }
      : { port, host, lookup, ...(family !== undefined && { family }) }
  return tls === undefined ? createConnection(target) : connectTls({ ...target, ...tls })
}

type Answer = (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void
/** Looks a name up; `options.all` is set. */
export type Resolve = (name: string, options: LookupOptions & { all: true }, answer: Answer) => void

export function sharedLookup(resolve: Resolve = resolveName): LookupFunction {
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
