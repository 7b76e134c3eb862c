/**
 * What runs of the built package while something is done: source files and functions, by V8's
 * coverage. A reader has to read these, so their number is kept small.
 */
import { Session } from 'node:inspector/promises'

interface Ran {
  readonly file: string
  readonly functions: readonly string[]
}

export class PathCoverage {
  readonly #session = new Session()

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
      .map(({ url, functions }) => ({
        file: url.slice(url.indexOf('/dist/') + '/dist/'.length),
        functions: functions
          .filter(({ ranges }) => (ranges[0]?.count ?? 0) > 0)
          .map(({ functionName }) => functionName),
      }))
      .filter(({ functions }) => functions.length > 0)
  }
}

export function functionsOf(ran: readonly Ran[]): number {
  return ran.reduce((sum, { functions }) => sum + functions.length, 0)
}

/** A line a file, and the sum. */
export function printPath(name: string, ran: readonly Ran[]): void {
  for (const { file, functions } of ran) {
    const names = functions.map((each) => (each === '' ? '(anonymous)' : each))
    console.log(`${file.padEnd(40)} ${String(functions.length).padStart(3)}  ${names.join(' ')}`)
  }
  console.log(`${name}: ${ran.length} files, ${functionsOf(ran)} functions`)
}
