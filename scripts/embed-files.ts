/**
 * Part of the build: modules that read files of `src/` are replaced by ones that have their texts,
 * so that they survive a bundler.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'

const ROOT = join(import.meta.dirname, '..')
const SRC = join(ROOT, 'src')

/** What stands in place of a module, by its path. */
const EMBEDDED: Readonly<Record<string, () => string>> = {
  'lua-files.ts': () => moduleOf('function luaFile', textsIn('.', /\.lua$/)),
  'tools/dashboard/page-files.ts': () =>
    moduleOf('async function pageFile', textsIn('tools/dashboard/page', /./)),
  'tools/cli/package-version.ts': () => {
    const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
      readonly version: string
    }
    return `export const packageVersion = () => ${JSON.stringify(version)}`
  },
}

/** @returns what stands in place of the module at `path`; undefined for other modules. */
export function embeddedModule(path: string): string | undefined {
  return EMBEDDED[relative(SRC, path)]?.()
}

/** Files below a folder of `src/`, by their paths there. */
function textsIn(folder: string, files: RegExp): readonly (readonly [string, string])[] {
  const root = join(SRC, folder)
  return readdirSync(root, { recursive: true, encoding: 'utf8' })
    .filter((path) => files.test(path))
    .sort()
    .map((path) => [path, readFileSync(join(root, path), 'utf8')])
}

/** @param signature of the function that the module exports, from a path to its text. */
function moduleOf(signature: string, texts: readonly (readonly [string, string])[]): string {
  const entries = texts.map(([path, text]) => `[${JSON.stringify(path)}, ${literal(text)}],`)
  return `
const FILES = new Map([${entries.join('\n')}])
export ${signature}(path) {
  const text = FILES.get(path)
  if (text === undefined) throw new Error(\`There is no file \${path}\`)
  return text
}`
}

/** Its lines stay lines, for readers of the package. */
function literal(text: string): string {
  return `\`${text.replace(/[\\`]|\$\{/g, '\\$&')}\``
}
