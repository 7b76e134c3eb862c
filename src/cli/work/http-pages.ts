/** A small server for probes and scrapers: exact paths, GET and HEAD, nothing else. */
import { createServer, type Server } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { messageOf } from '../../message-of.ts'

export interface Page {
  readonly status: number
  readonly contentType: string
  readonly body: string
}

/** Path to what is answered there. */
export type Pages = ReadonlyMap<string, () => Page | Promise<Page>>

export interface PageServer {
  readonly port: number
  close(): Promise<void>
}

export interface PageServerOptions {
  /** 0 for a free one. */
  readonly port: number
  readonly host: string
  readonly pages: Pages
}

const REQUEST_LIMIT_MS = 5_000

/** @throws Error when the port is taken. */
export async function servePages({ port, host, pages }: PageServerOptions): Promise<PageServer> {
  const server = createServer({ requestTimeout: REQUEST_LIMIT_MS }, (request, response) => {
    void answer(pages, request.method, request.url).then(({ status, contentType, body }) => {
      response.writeHead(status, { 'content-type': contentType, 'cache-control': 'no-store' })
      response.end(request.method === 'HEAD' ? undefined : body)
    })
  })
  server.listen(port, host)
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    close: () => closed(server),
  }
}

export function jsonPage(status: number, value: object): Page {
  return { status, contentType: 'application/json', body: `${JSON.stringify(value)}\n` }
}

async function answer(
  pages: Pages,
  method: string | undefined,
  url: string | undefined,
): Promise<Page> {
  if (method !== 'GET' && method !== 'HEAD') return jsonPage(405, { error: 'GET only' })
  const page = pages.get((url ?? '/').split('?', 1)[0] ?? '/')
  if (page === undefined) return jsonPage(404, { error: 'not found', paths: [...pages.keys()] })
  try {
    return await page()
  } catch (error) {
    return jsonPage(500, { error: messageOf(error) })
  }
}

async function closed(server: Server): Promise<void> {
  const end = once(server, 'close')
  server.close()
  server.closeAllConnections()
  await end
}
