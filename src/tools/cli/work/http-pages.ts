/** A small server for probes and scrapers: exact paths, GET and HEAD, nothing else. */
import { createServer, type Server } from 'node:http'
import { give, json, type HttpAnswer } from '../../dashboard/answers.ts'
import { messageOf } from '../../../message-of.ts'

/** Path to what is answered there. */
export type Pages = ReadonlyMap<string, () => HttpAnswer | Promise<HttpAnswer>>

const REQUEST_LIMIT_MS = 5_000

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
