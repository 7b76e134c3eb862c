/** How ioredis reaches a lock master: as it does by itself, but with shared name lookups. */
import { createConnection } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { AbstractConnector, RedisOptions } from 'ioredis'
import { ioredis } from '../../ioredis.ts'
import { sharedLookup } from './shared-lookup.ts'

const lookup = sharedLookup()

type Connector = NonNullable<RedisOptions['Connector']>

let made: Connector | undefined

/** A class that is made when ioredis is loaded, and once. */
export function masterConnector(): Connector {
  if (made !== undefined) return made
  const { AbstractConnector: Base } = ioredis()
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
  made = MasterConnector
  return made
}

function open(options: RedisOptions): ReturnType<typeof createConnection> {
  const { path, port = 6379, host = 'localhost', family, tls } = options
  const target =
    typeof path === 'string' && path !== ''
      ? { path }
      : { port, host, lookup, ...(family !== undefined && { family }) }
  return tls === undefined ? createConnection(target) : connectTls({ ...target, ...tls })
}
