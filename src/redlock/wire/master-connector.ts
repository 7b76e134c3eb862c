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
  return (made ??= connectorOf(ioredis().AbstractConnector))
}

function connectorOf(Base: typeof AbstractConnector): Connector {
  return class MasterConnector extends Base {
    readonly #options: RedisOptions

    /** @param options are complete: ioredis made them of an address and the settings. */
    constructor(options: unknown) {
      const complete = options as RedisOptions
      super(complete.disconnectTimeout ?? 0)
      this.#options = complete
    }

    override connect(): ReturnType<AbstractConnector['connect']> {
      this.connecting = true
      return new Promise((resolve, reject) => {
        // Who disconnects in this very turn is heard.
        process.nextTick(() => {
          if (!this.connecting) {
            reject(new Error('Connection is closed.'))
            return
          }
          try {
            this.stream = open(this.#options)
          } catch (error) {
            reject(error instanceof Error ? error : new Error(String(error)))
            return
          }
          this.stream.once('error', (error: Error) => {
            this.firstError = error
          })
          resolve(this.stream)
        })
      })
    }
  }
}

function open(options: RedisOptions): ReturnType<typeof createConnection> {
  const { path, port = 6379, host = 'localhost', family, tls } = options
  const target =
    typeof path === 'string' && path !== ''
      ? { path }
      : { port, host, lookup, ...(family !== undefined && { family }) }
  return tls === undefined ? createConnection(target) : connectTls({ ...target, ...tls })
}
