/** The files of the page. */
import type { HttpAnswer } from './answers.ts'
import { pageFile } from './page-files.ts'

/** What the page loads beside itself. It is the same for every viewer. */
const PUBLIC: ReadonlyMap<string, string> = new Map([
  ['page.css', 'text/css; charset=utf-8'],
  ...['act', 'charts', 'job', 'page', 'resource', 'rows', 'sections', 'words'].map(
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
