/** Links between the pages lead somewhere: the file is there, and so is the heading. */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { expect, test } from 'vitest'
import { anchorOf } from '../../scripts/docs/markdown.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const IGNORED = /(^|\/)(node_modules|dist)\//

function pages(): readonly string[] {
  const options = { cwd: ROOT, encoding: 'utf8' } as const
  const listed = execFileSync(
    'git',
    ['ls-files', '--cached', '--others', '--exclude-standard', '*.md'],
    options,
  )
  return listed.split('\n').filter((name) => name !== '' && !IGNORED.test(name))
}

const known = new Map<string, ReadonlySet<string>>()

function anchorsOf(page: string): ReadonlySet<string> {
  const anchors = known.get(page) ?? headingsOf(readFileSync(page, 'utf8'))
  known.set(page, anchors)
  return anchors
}

function headingsOf(text: string): ReadonlySet<string> {
  const prose = text.replaceAll(/^```[^]*?^```/gm, '')
  const anchors = new Set<string>()
  for (const [, heading = ''] of prose.matchAll(/^#{1,6} +(.+?) *$/gm)) {
    const anchor = anchorOf(heading)
    // A second heading of this name has a number.
    let unique = anchor
    for (let count = 1; anchors.has(unique); count++) unique = `${anchor}-${count}`
    anchors.add(unique)
  }
  return anchors
}

function brokenLinksOf(page: string): readonly string[] {
  const text = readFileSync(join(ROOT, page), 'utf8')
  const links = [...text.matchAll(/\]\(([^()\s]+)\)/g)].map(([, target = '']) => target)
  return links.filter((link) => {
    if (/^[a-z]+:/i.test(link)) return false // Elsewhere.
    const [file = '', anchor] = link.split('#')
    const target = file === '' ? join(ROOT, page) : join(ROOT, dirname(page), decodeURI(file))
    if (!existsSync(target)) return true
    if (anchor === undefined || !target.endsWith('.md')) return false
    return !anchorsOf(target).has(anchor)
  })
}

test.each(pages())('%s: every link leads somewhere', (page) => {
  expect(brokenLinksOf(page)).toEqual([])
})

test.each(pages())('%s: every test and benchmark that it names is there', (page) => {
  const text = readFileSync(join(ROOT, page), 'utf8')
  const named = [...text.matchAll(/`((?:test|bench)\/[^\s`*]*)`/g)].map(([, path = '']) => path)
  const roots = [ROOT, join(ROOT, dirname(page))]
  const gone = named.filter((path) => !roots.some((root) => existsSync(join(root, path))))
  expect(gone).toEqual([])
})

test('every page of docs/ is in exactly one table of the README', () => {
  const readme = readFileSync(join(ROOT, 'README.md'), 'utf8')
  const shelves = readme.slice(readme.indexOf('## Read on'))
  expect([...shelves.matchAll(/^\*\*(\w+)\*\*/gm)].map(([, name]) => name)).toEqual([
    ...['Learn', 'Do', 'Know', 'Understand'],
  ])
  const found = [...shelves.matchAll(/^\| \[[^\]]+\]\((docs\/[^)]+)\)/gm)].map(([, page]) => page)
  const there = pages().filter((page) => page.startsWith('docs/'))
  expect([...found].sort()).toEqual([...there].sort())
})
