/** The files of the page. */
import { pageFile } from './page-files.ts'

interface Asset {
  readonly contentType: string
  readonly body: string
}

const HTML = 'text/html; charset=utf-8'
const CSS = 'text/css; charset=utf-8'
const SCRIPT = 'text/javascript; charset=utf-8'

const CONTENT_TYPES: ReadonlyMap<string, string> = new Map([
  ['index.html', HTML],
  ['login.html', HTML],
  ['page.css', CSS],
  ...['charts', 'page', 'resource', 'rows', 'sections', 'words'].map(
    (name) => [`${name}.js`, SCRIPT] as const,
  ),
])

/** What the page loads beside itself. It is the same for every viewer. */
export function isPublic(name: string): boolean {
  const contentType = CONTENT_TYPES.get(name)
  return contentType === CSS || contentType === SCRIPT
}

export async function asset(name: string): Promise<Asset> {
  const contentType = CONTENT_TYPES.get(name)
  if (contentType === undefined) throw new TypeError(`The page has no file ${name}`)
  return { contentType, body: await pageFile(name) }
}
