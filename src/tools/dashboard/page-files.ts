/** The files of the page. The build replaces this module by one that has them, for bundlers. */
import { readFile } from 'node:fs/promises'

export function pageFile(name: string): Promise<string> {
  return readFile(new URL(`./page/${name}`, import.meta.url), 'utf8')
}
