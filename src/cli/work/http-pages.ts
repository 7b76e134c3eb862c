/** A small server for probes and scrapers: exact paths, GET and HEAD, nothing else. */
import { createServer, type Server } from 'node:http'
import { messageOf } from '../../message-of.ts'

export interface Page {
  readonly status: number
  readonly contentType: string
  readonly body: string
}

/** Path to what is answered there. */
export type Pages = ReadonlyMap<string, () => Page | Promise<Page>>

const REQUEST_LIMIT_MS = 5_000

export function pageServer(pages: Pages): Server {
  return createServer({ requestTimeout: REQUEST_LIMIT_MS }, (request, response) => {
    void answer(pages, request.method, request.url).then(({ status, contentType, body }) => {
      response.writeHead(status, { 'content-type': contentType, 'cache-control': 'no-store' })
      response.end(request.method === 'HEAD' ? undefined : body)
    })
  })
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
