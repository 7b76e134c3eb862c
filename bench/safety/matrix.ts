/** Runs the rows of one library, one after the other, on masters of its own. */
import { startFleet, type Fleet } from '../../src/testing/index.ts'
import type { ClockShim } from '../../test/faults/shimmed-clock.ts'
import { startLibrary, type Library } from '../peers/libraries.ts'
import { Bench, FaultNotSeenError, type LibraryProcess } from './bench.ts'
import { fail, type Cell, type Hazard } from './hazard.ts'

export interface Column {
  readonly library: Library
  readonly versions: readonly string[]
  /** By hazard name. */
  readonly cells: Readonly<Record<string, Cell>>
}

export class LibraryUnderTest implements AsyncDisposable {
  readonly #library: Library
  readonly #fleet: Fleet
  readonly #clocks: ClockShim | undefined
  readonly #processes: ProcessPair

  static async open(library: Library, clocks: ClockShim | undefined): Promise<LibraryUnderTest> {
    return new LibraryUnderTest(library, clocks, await startFleet({ masters: 5, queue: false }))
  }

  private constructor(library: Library, clocks: ClockShim | undefined, fleet: Fleet) {
    this.#library = library
    this.#fleet = fleet
    this.#clocks = clocks
    this.#processes = new ProcessPair(library.name)
  }

  versions(): Promise<readonly string[]> {
    return this.#processes.versions()
  }

  async meet(hazard: Hazard): Promise<Cell> {
    const { name } = this.#library
    const bench = await Bench.open(name, this.#fleet, this.#clocks, () => this.#processes.ready())
    try {
      return await hazard.run(bench)
    } catch (error) {
      if (error instanceof FaultNotSeenError) throw error
      return fail(`could not go through it: ${(error as Error).message}`)
    } finally {
      await bench[Symbol.asyncDispose]()
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#processes.end()
    await this.#fleet.close()
  }
}

export async function runColumn(
  library: Library,
  hazards: readonly Hazard[],
  clocks: ClockShim | undefined,
  onCell: (hazard: Hazard, cell: Cell) => void,
): Promise<Column> {
  await using tested = await LibraryUnderTest.open(library, clocks)
  const versions = await tested.versions()
  const cells: Record<string, Cell> = {}
  for (const hazard of hazards) {
    const cell = await tested.meet(hazard)
    cells[hazard.name] = cell
    onCell(hazard, cell)
  }
  return { library, versions, cells }
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
    if (library?.isStuck === false) return library
    await library?.[Symbol.asyncDispose]()
    return startLibrary(new URL('library-child.ts', import.meta.url), this.#library)
  }
}
