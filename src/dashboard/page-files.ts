/**
 * The files of the page as text. In the repository they are read from `page/`. In the package this
 * module is replaced by one that contains them (`scripts/embed-page.ts`), because a bundler moves
 * code away from its files.
 */
import { readFile } from 'node:fs/promises'

export function pageFile(name: string): Promise<string> {
  return readFile(new URL(`./page/${name}`, import.meta.url), 'utf8')
}
