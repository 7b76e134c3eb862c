/** The files of the page. */
import { pageFile } from './page-files.ts'

interface Asset {
  readonly contentType: string
  readonly body: string
}

/** What the page loads beside itself. It is the same for every viewer. */
const PUBLIC: ReadonlyMap<string, string> = new Map([
  ['page.css', 'text/css; charset=utf-8'],
  ...['charts', 'page', 'resource', 'rows', 'sections', 'words'].map(
    (name) => [`${name}.js`, 'text/javascript; charset=utf-8'] as const,
  ),
])

export function isPublic(name: string): boolean {
  return PUBLIC.has(name)
}

export async function asset(name: string): Promise<Asset> {
  return { contentType: PUBLIC.get(name) ?? 'text/html; charset=utf-8', body: await pageFile(name) }
}
