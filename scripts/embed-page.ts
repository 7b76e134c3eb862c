/**
 * Part of the build: puts the dashboard's page into `dist/tools/dashboard/page-files.js`, so that it
 * survives a bundler.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'

const page = new URL('../src/tools/dashboard/page/', import.meta.url)
const files = readdirSync(page)
  .sort()
  .map((name) => [name, readFileSync(new URL(name, page), 'utf8')])

writeFileSync(
  new URL('../dist/tools/dashboard/page-files.js', import.meta.url),
  [
    '/** The files of the page as text. Written by the build. */',
    `const FILES = new Map(${JSON.stringify(files, null, 2)})`,
    '',
    'export async function pageFile(name) {',
    '  const text = FILES.get(name)',
    '  if (text === undefined) throw new Error(`The page has no file ${name}`)',
    '  return text',
    '}',
    '',
  ].join('\n'),
)
