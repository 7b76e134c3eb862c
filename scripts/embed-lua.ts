/**
 * Part of the build: puts the Lua files into `dist/lua-files.js`, so that they survive a bundler.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'

const src = new URL('../src/', import.meta.url)
const files = readdirSync(src, { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.lua'))
  .sort()
  .map((path) => [path, readFileSync(new URL(path, src), 'utf8')])

writeFileSync(
  new URL('../dist/lua-files.js', import.meta.url),
  [
    '/** The Lua files of this package. Written by the build. */',
    `const FILES = new Map(${JSON.stringify(files, null, 2)})`,
    '',
    'export function luaFile(path) {',
    '  const text = FILES.get(path)',
    '  if (text === undefined) throw new Error(`There is no file ${path}`)',
    '  return text',
    '}',
    '',
  ].join('\n'),
)
