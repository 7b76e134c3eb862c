/** Servers of HTTP that a command runs. */
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { messageOf } from '../../message-of.ts'
import { give, json, type HttpAnswer } from '../dashboard/answers.ts'
import { UsageError } from './exit-code.ts'

/** A server that listens. */
export interface OpenPort {
  readonly port: number
  close(): Promise<void>
}

/** `flag` named the port; 0 is a free one. @throws UsageError when it is taken. */
export async function listen(
  server: Server,
  { host, port, flag }: { readonly host: string; readonly port: number; readonly flag: string },
): Promise<OpenPort> {
  server.listen(port, host)
  try {
    await once(server, 'listening')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EADDRINUSE') throw new UsageError(`${flag} ${port} is taken: give another, or 0`)
    throw error
  }
  return {
    port: (server.address() as AddressInfo).port,
    close() {
      const closed = server[Symbol.asyncDispose]()
      server.closeAllConnections()
      return closed
    },
  }
}

/** Path to what is answered there. */
export type Pages = ReadonlyMap<string, () => HttpAnswer | Promise<HttpAnswer>>

const REQUEST_LIMIT_MS = 5_000

/** For probes and scrapers: exact paths, GET and HEAD, nothing else. */
export function pageServer(pages: Pages): Server {
  return createServer({ requestTimeout: REQUEST_LIMIT_MS }, (request, response) => {
    response.setHeader('cache-control', 'no-store')
    void answer(pages, request.method, request.url).then((found) => {
      give({ request, response }, found)
    })
  })
}

async function answer(pages: Pages, method = '', url = '/'): Promise<HttpAnswer> {
  if (method !== 'GET' && method !== 'HEAD') return json({ error: 'GET only' }, 405)
  const page = pages.get(url.split('?', 1)[0] ?? '/')
  if (page === undefined) return json({ error: 'not found', paths: [...pages.keys()] }, 404)
  try {
    return await page()
  } catch (error) {
    return json({ error: messageOf(error) }, 500)
  }
}
