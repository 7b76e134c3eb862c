/**
 * What runs of the built package while something is done: source files and functions, by V8's
 * coverage. A reader has to read these, so their number is kept small.
 */
import { readFileSync } from 'node:fs'
import { Session } from 'node:inspector/promises'
import { SourceMap, type SourceMapPayload } from 'node:module'
import { fileURLToPath } from 'node:url'

/** A function that ran, and where it begins: names are given twice. */
interface Ran {
  readonly file: string
  readonly name: string
  readonly offset: number
}

/** V8's name for what makes the fields of an object. They are read with the class's constructor. */
const FIELDS = '<instance_members_initializer>'

/** Which source stands at an offset of a built file. */
type SourceAt = (offset: number) => string

/** @returns what takes what has run since the last call. */
export async function startCoverage(): Promise<() => Promise<readonly Ran[]>> {
  const session = new Session()
  session.connect()
  await session.post('Profiler.enable')
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
  /** By the addresses of built files. A slow call would let timers of the worker become due. */
  const sources = new Map<string, SourceAt>()
  return async () => {
    const { result } = await session.post('Profiler.takePreciseCoverage')
    return result.flatMap(({ url, functions }) => {
      if (!url.includes('/dist/') || url.includes('/node_modules/')) return []
      const sourceAt = sources.get(url) ?? sourcesOf(url)
      sources.set(url, sourceAt)
      return functions.flatMap(({ functionName: name, ranges: [range] }) => {
        if (range === undefined || range.count === 0 || name === FIELDS) return []
        return [{ file: sourceAt(range.startOffset), name, offset: range.startOffset }]
      })
    })
  }
}

function sourcesOf(url: string): SourceAt {
  const text = readFileSync(fileURLToPath(url), 'utf8')
  const json = readFileSync(`${fileURLToPath(url)}.map`, 'utf8')
  const map = new SourceMap(JSON.parse(json) as SourceMapPayload)
  return (offset) => {
    const before = text.slice(0, offset).split('\n')
    const entry = map.findEntry(before.length - 1, before.at(-1)?.length ?? 0)
    const source = 'originalSource' in entry ? entry.originalSource : ''
    return source.slice(source.lastIndexOf('src/') + 'src/'.length)
  }
}

/** What ran in more than half of several measurements. */
export function ofMost(paths: readonly (readonly Ran[])[]): readonly Ran[] {
  const keyOf = ({ file, offset }: Ran): string => `${file}:${offset}`
  const all = paths.map((path) => new Set(path.map(keyOf)))
  const ran = new Map(paths.flat().map((one) => [keyOf(one), one]))
  const isOften = (key: string): boolean =>
    all.filter((one) => one.has(key)).length > all.length / 2
  return [...ran.values()].filter((one) => isOften(keyOf(one)))
}

/** A line a file, and the sum. */
export function printPath(what: string, path: readonly Ran[]): void {
  const files = new Set(path.map(({ file }) => file))
  for (const file of files) {
    const names = path.filter((ran) => ran.file === file).map(({ name }) => name || '(anonymous)')
    console.log(`${file.padEnd(40)} ${String(names.length).padStart(3)}  ${names.join(' ')}`)
  }
  console.log(`${what}: ${files.size} files, ${path.length} functions`)
}
