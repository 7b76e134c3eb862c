/**
 * What runs of the built package while something is done: source files and functions, by V8's
 * coverage. A reader has to read these, so their number is kept small.
 */
import { readFileSync } from 'node:fs'
import { Session } from 'node:inspector/promises'
import { SourceMap, type SourceMapPayload } from 'node:module'
import { fileURLToPath } from 'node:url'

/** A function that ran. */
interface Ran {
  readonly file: string
  readonly name: string
  /** Where it begins: names are given twice. */
  readonly offset: number
}

/** V8's name for what makes the fields of an object. */
const FIELDS = '<instance_members_initializer>'

type SourceAt = (offset: number) => string

export class PathCoverage {
  readonly #session = new Session()
  /** By the addresses of built files. A slow `take` would let timers of the worker become due. */
  readonly #sources = new Map<string, SourceAt>()

  static async start(): Promise<PathCoverage> {
    const coverage = new PathCoverage()
    coverage.#session.connect()
    await coverage.#session.post('Profiler.enable')
    await coverage.#session.post('Profiler.startPreciseCoverage', {
      callCount: true,
      detailed: false,
    })
    return coverage
  }

  /** What has run since the last call. */
  async take(): Promise<readonly Ran[]> {
    const { result } = await this.#session.post('Profiler.takePreciseCoverage')
    return result
      .filter(({ url }) => url.includes('/dist/') && !url.includes('/node_modules/'))
      .flatMap(({ url, functions }) => {
        const sourceAt = this.#sources.get(url) ?? sourcesOf(url)
        this.#sources.set(url, sourceAt)
        return functions.flatMap(({ functionName, ranges: [range] }) => {
          if (range === undefined || range.count === 0) return []
          // Fields of a class are read with its constructor.
          if (functionName === FIELDS) return []
          const name = functionName === '' ? '(anonymous)' : functionName
          return [{ file: sourceAt(range.startOffset), name, offset: range.startOffset }]
        })
      })
  }
}

/** Which source stands at an offset of a built file. */
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
  const found = new Map<string, { readonly ran: Ran; times: number }>()
  for (const ran of paths.flat()) {
    const key = `${ran.file}:${ran.offset}`
    const known = found.get(key) ?? { ran, times: 0 }
    known.times++
    found.set(key, known)
  }
  return [...found.values()].filter(({ times }) => times > paths.length / 2).map(({ ran }) => ran)
}

/** A line a file, and the sum. */
export function printPath(what: string, path: readonly Ran[]): void {
  const files = new Map<string, readonly string[]>()
  for (const { file, name } of path) files.set(file, [...(files.get(file) ?? []), name])
  for (const [file, names] of files) {
    console.log(`${file.padEnd(40)} ${String(names.length).padStart(3)}  ${names.join(' ')}`)
  }
  console.log(`${what}: ${files.size} files, ${path.length} functions`)
}
