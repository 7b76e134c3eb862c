/** Runs the rows of one library, one after the other, on masters of its own. */
import type { Library } from '../peers/libraries.ts'
import { startFleet, type Fleet } from '../../src/testing/index.ts'
import type { ClockShim } from '../../test/faults/shimmed-clock.ts'
import { RemoteProcess } from '../peers/remote.ts'
import { Bench, FaultNotSeenError, type LibraryProcess } from './bench.ts'
import { fail, type Cell, type Hazard } from './hazard.ts'

export interface Column {
  readonly library: Library
  readonly versions: readonly string[]
  /** By hazard name. */
  readonly cells: Readonly<Record<string, Cell>>
}

export async function runColumn(
  library: Library,
  hazards: readonly Hazard[],
  clocks: ClockShim | undefined,
  onCell: (hazard: Hazard, cell: Cell) => void,
): Promise<Column> {
  await using fleet = await startFleet({ masters: 5, queue: false })
  const processes = new ProcessPair(library.name)
  try {
    const versions = await processes.versions()
    const cells: Record<string, Cell> = {}
    for (const hazard of hazards) {
      const cell = await runCell(library.name, hazard, fleet, clocks, processes)
      cells[hazard.name] = cell
      onCell(hazard, cell)
    }
    return { library, versions, cells }
  } finally {
    await processes.end()
  }
}

async function runCell(
  library: string,
  hazard: Hazard,
  fleet: Fleet,
  clocks: ClockShim | undefined,
  processes: ProcessPair,
): Promise<Cell> {
  const bench = await Bench.open(library, fleet, clocks, () => processes.ready())
  try {
    return await hazard.run(bench)
  } catch (error) {
    if (error instanceof FaultNotSeenError) throw error
    return fail(`could not go through it: ${(error as Error).message}`)
  } finally {
    await bench[Symbol.asyncDispose]()
  }
}

/** Two processes that go on from row to row, unless a row left something unanswered in one. */
class ProcessPair {
  readonly #library: string
  #pair: readonly LibraryProcess[] = []

  constructor(library: string) {
    this.#library = library
  }

  async ready(): Promise<readonly [LibraryProcess, LibraryProcess]> {
    const [first, second] = await Promise.all([0, 1].map((index) => this.#fit(this.#pair[index])))
    if (first === undefined || second === undefined) throw new Error('Two processes were expected')
    this.#pair = [first, second]
    return [first, second]
  }

  async versions(): Promise<readonly string[]> {
    const [first] = await this.ready()
    const outcome = await first.call('versions', null, 5_000)
    return outcome.status === 'answered' ? outcome.answer : []
  }

  async end(): Promise<void> {
    await Promise.all(this.#pair.map((library) => library[Symbol.asyncDispose]()))
  }

  async #fit(library: LibraryProcess | undefined): Promise<LibraryProcess> {
    if (library?.stuck === false) return library
    await library?.[Symbol.asyncDispose]()
    return RemoteProcess.start(new URL('library-child.ts', import.meta.url), this.#library)
  }
}
