/**
 * The ledger as the demo's workers use it: reporting, slowed down, and with the places where faults
 * strike.
 */
import { readSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { StaleTokenError } from '../../src/fenced/index.ts'
import type { LedgerWriter, OpenAccount, Opening, Posting } from '../ledger.ts'
import { HOLD_FD, type JobFacts, type Report, type WorkerConfig } from './messages.ts'

/** `sent` is called once the report has left this process. */
type Tell = (report: Report, sent?: () => void) => void

export class DemoLedger implements LedgerWriter {
  readonly #ledger: LedgerWriter
  readonly #config: Pick<WorkerConfig, 'workMs' | 'without'>
  readonly #tell: Tell
  #holdNext = false

  constructor(ledger: LedgerWriter, config: Pick<WorkerConfig, 'workMs' | 'without'>, tell: Tell) {
    this.#ledger = ledger
    this.#config = config
    this.#tell = tell
  }

  /** The next write stops before it leaves this process, until it is let go. */
  holdNext(): void {
    this.#holdNext = true
  }

  async open(opening: Opening): Promise<OpenAccount> {
    const account = await this.#watched(opening, () => this.#ledger.open(this.#sent(opening)))
    this.#tell({ type: 'opened', ...factsOf(opening) })
    // The work between read and write: this is how long a lease has to keep others out.
    await delay(this.#config.workMs)
    return account
  }

  async post(posting: Posting): Promise<void> {
    if (this.#holdNext) await this.#hold(factsOf(posting))
    await this.#watched(posting, () => this.#ledger.post(this.#sent(posting)))
    this.#tell({ type: 'posted', ...factsOf(posting) })
  }

  /**
   * Blocks the whole process in a read, so that nothing can run between the lease's check, which is
   * behind us, and the write, which comes next: the pause that no check in the same process can
   * see.
   */
  async #hold(facts: JobFacts): Promise<void> {
    this.#holdNext = false
    const since = performance.now()
    // A blocked process sends nothing more.
    await new Promise<void>((sent) => {
      this.#tell({ type: 'holding', ...facts }, sent)
    })
    readSync(HOLD_FD, Buffer.alloc(1))
    this.#tell({ type: 'released', heldMs: performance.now() - since, ...facts })
  }

  /** Without fencing every write carries token 0, so the store cannot tell old from new. */
  #sent<Write extends Opening>(write: Write): Write {
    return this.#config.without === undefined ? write : { ...write, fencingToken: 0 }
  }

  async #watched<Result>(write: Opening, run: () => Promise<Result>): Promise<Result> {
    try {
      return await run()
    } catch (error) {
      if (error instanceof StaleTokenError) {
        this.#tell({ type: 'refused', ...factsOf(write), currentToken: error.storedToken ?? 0 })
      }
      throw error
    }
  }
}

function factsOf({ jobId, customer, fencingToken }: Opening): JobFacts {
  return { jobId, customer, fencingToken }
}
