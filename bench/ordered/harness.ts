/** The harness of the coordination benchmark, with the servers of the peers. */
import { noPostgres } from '../../scripts/lock-servers/postgres-server.ts'
import { Harness } from '../coordination/harness.ts'
import { isPeer } from '../coordination/peer-queue.ts'
import type { Effort } from '../effort.ts'
import type { MeasuredRow } from '../measured.ts'
import { contenders, type Ordered } from './contenders.ts'

export type Row = MeasuredRow<OrderedHarness>

export const PROCESSES = 2

export class OrderedHarness implements AsyncDisposable {
  readonly runs: Harness
  readonly effort: Effort
  readonly say: (line: string) => void
  readonly contenders: readonly Ordered[]

  static async open(effort: Effort, say: (line: string) => void): Promise<OrderedHarness> {
    const here = contenders.filter(({ server }) => server !== 'PostgreSQL' || !noPostgres)
    if (noPostgres) say('pg-boss and graphile-worker are left out: apt-get install postgresql')
    const runs = await Harness.open(PROCESSES)
    await runs.prepare(here.map(({ name }) => name).filter((name) => isPeer(name)))
    return new OrderedHarness(runs, effort, say, here)
  }

  private constructor(
    runs: Harness,
    effort: Effort,
    say: (line: string) => void,
    here: readonly Ordered[],
  ) {
    this.runs = runs
    this.effort = effort
    this.say = say
    this.contenders = here
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.runs[Symbol.asyncDispose]()
  }
}
