/** The files of the page, read when they are first asked for. They stand beside this file, in `src` and in `dist`. */
import { readFile } from 'node:fs/promises'

interface Asset {
  readonly contentType: string
  readonly body: Buffer
}

const HTML = 'text/html; charset=utf-8'
const CSS = 'text/css; charset=utf-8'
const SCRIPT = 'text/javascript; charset=utf-8'

const CONTENT_TYPES: ReadonlyMap<string, string> = new Map([
  ['index.html', HTML],
  ['login.html', HTML],
  ['page.css', CSS],
  ...['page', 'resource', 'rows', 'sections', 'words'].map(
    (name) => [`${name}.js`, SCRIPT] as const,
  ),
])

/** What the page loads beside itself: the same for everybody. */
export function isPublic(name: string): boolean {
  const contentType = CONTENT_TYPES.get(name)
  return contentType === CSS || contentType === SCRIPT
}

export class Assets {
  readonly #read = new Map<string, Promise<Asset>>()

  get(name: string): Promise<Asset> {
    const known = this.#read.get(name)
    if (known !== undefined) return known
    const reading = this.#load(name)
    this.#read.set(name, reading)
    return reading
  }

  async #load(name: string): Promise<Asset> {
    const contentType = CONTENT_TYPES.get(name)
    if (contentType === undefined) throw new TypeError(`The page has no file ${name}`)
    const body = await readFile(new URL(`./page/${name}`, import.meta.url))
    return { contentType, body }
  }
}
