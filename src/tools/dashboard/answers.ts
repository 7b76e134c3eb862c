/** How requests are read and answered on bare `node:http`: here and by `work`. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { jsonWithOptions, type GivenOption } from '../../shown-commands.ts'
import { pageFile } from './page-files.ts'

export interface RoutedRequest {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  /** Below where the dashboard is mounted: `/state`. */
  readonly path: string
  /** Where it is mounted, without a slash at its end. */
  readonly mount: string
  readonly query: URLSearchParams
  /** The page was asked for without the slash that makes its files' addresses right. */
  readonly lacksSlash: boolean
}

const MAX_FORM_BYTES = 4_096

/** Nothing is kept by caches, nothing runs but the page's own script, and no page frames it. */
const SAFE_HEADERS = {
  'cache-control': 'no-store',
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
}

/**
 * Undefined for a path that is not below `basePath`. Express takes the mount path off `url` and
 * leaves it in `originalUrl`; others leave it where it is, and `basePath` says what it is.
 */
export function routedRequest(
  request: IncomingMessage & { readonly originalUrl?: string },
  response: ServerResponse,
  basePath: string,
): RoutedRequest | undefined {
  const { url = '/', originalUrl = url } = request
  const [given = '/', query = ''] = url.split('?', 2)
  const [original = '/'] = originalUrl.split('?', 1)
  const isBelow = given === basePath || given.startsWith(`${basePath}/`)
  if (!isBelow && originalUrl === url) return undefined
  const path = (isBelow ? given.slice(basePath.length) : given) || '/'
  const mount = original.endsWith(path) ? original.slice(0, -path.length) : original
  return {
    ...{ request, response, path, mount, query: new URLSearchParams(query) },
    lacksSlash: path === '/' && !original.endsWith('/'),
  }
}

export interface HttpAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

export function give(
  { request, response }: Pick<RoutedRequest, 'request' | 'response'>,
  { status, headers, body }: HttpAnswer,
): void {
  response.writeHead(status, headers)
  response.end(request.method === 'HEAD' ? undefined : body)
}

export function makeSafe(response: ServerResponse): void {
  for (const [name, value] of Object.entries(SAFE_HEADERS)) response.setHeader(name, value)
}

export function text(
  status: number,
  words: string,
  headers: HttpAnswer['headers'] = {},
): HttpAnswer {
  const contentType = { 'content-type': 'text/plain; charset=utf-8' }
  return { status, headers: { ...contentType, ...headers }, body: `${words}\n` }
}

export function json(value: object, status = 200, options?: readonly GivenOption[]): HttpAnswer {
  const headers = { 'content-type': 'application/json' }
  return { status, headers, body: `${jsonWithOptions(value, options)}\n` }
}

export function redirect(status: 302 | 303, location: string, headers = {}): HttpAnswer {
  return { status, headers: { location, ...headers }, body: '' }
}

/** What the page loads beside itself. It is the same for every viewer. */
const PUBLIC: ReadonlyMap<string, string> = new Map([
  ['page.css', 'text/css; charset=utf-8'],
  ...['act', 'charts', 'job', 'page', 'panels', 'resource', 'rows', 'sections', 'words'].map(
    (name) => [`${name}.js`, 'text/javascript; charset=utf-8'] as const,
  ),
])

export function isPublic(name: string): boolean {
  return PUBLIC.has(name)
}

export async function file(name: string): Promise<HttpAnswer> {
  const headers = { 'content-type': PUBLIC.get(name) ?? 'text/html; charset=utf-8' }
  return { status: 200, headers, body: await pageFile(name) }
}

/**
 * What was posted; empty for what is too long, and for what cannot be read. An application may have
 * read it already, and parsed it or not.
 */
export async function posted(
  request: IncomingMessage & { readonly body?: unknown },
  parse: (text: string) => unknown,
): Promise<Readonly<Record<string, unknown>>> {
  const { body } = request
  const isText = typeof body === 'string' || Buffer.isBuffer(body)
  // Express 4 leaves an empty object where none of its parsers is for this type.
  if (!isText && Object.keys(body ?? {}).length > 0) return { ...(body as object) }
  const text = isText ? String(body) : await textOf(request)
  try {
    return { ...(parse(text.length > MAX_FORM_BYTES ? '' : text) as object | null) }
  } catch {
    return {} // It is of another form.
  }
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = ''
  // A character may come in two chunks.
  for await (const chunk of request.setEncoding('utf8')) {
    text += String(chunk)
    if (text.length > MAX_FORM_BYTES) break
  }
  return text
}
