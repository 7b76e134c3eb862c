/**
 * The run as it goes: one block that is redrawn in a terminal, plain lines elsewhere, nothing with
 * --json.
 */
import { seconds } from './report.ts'

interface Snapshot {
  readonly elapsedMs: number
  readonly total: number
  readonly done: number
  readonly running: number
  readonly waiting: number
  readonly leases: number
  /** Of the locks: `1 voting`, `m1 up`. */
  readonly servers: readonly string[]
  readonly workers: readonly string[]
}

export interface Progress {
  /** Something happened that stays on the screen. */
  event(elapsedMs: number, what: string): void
  /** How things stand now. */
  show(snapshot: Snapshot): void
  /** Leaves the screen as it is. */
  end(): void
}

const NO_PROGRESS: Progress = {
  event: () => undefined,
  show: () => undefined,
  end: () => undefined,
}

export function progressOn(out: NodeJS.WriteStream, json: boolean): Progress {
  if (json) return NO_PROGRESS
  return out.isTTY ? new Block(out) : new Lines(out)
}

const LINE_EVERY_MS = 1_000

class Lines implements Progress {
  readonly #out: NodeJS.WriteStream
  #lastMs = -Infinity

  constructor(out: NodeJS.WriteStream) {
    this.#out = out
  }

  event(elapsedMs: number, what: string): void {
    this.#out.write(`${stamp(elapsedMs)}  ${what}\n`)
  }

  show(snapshot: Snapshot): void {
    if (snapshot.elapsedMs - this.#lastMs < LINE_EVERY_MS) return
    this.#lastMs = snapshot.elapsedMs
    const { elapsedMs, done, running, waiting, leases, servers } = snapshot
    const voting = servers.filter((server) => / (voting|up)$/.test(server)).length
    this.#out.write(
      `${stamp(elapsedMs)}  ${done} done, ${running} running, ${waiting} waiting; ` +
        `${leases} leases; ${voting} of ${servers.length} lock servers work\n`,
    )
  }

  end(): void {
    // Every line is complete already.
  }
}

const HIDE_CURSOR = '\x1b[?25l'
const SHOW_CURSOR = '\x1b[?25h'
const CLEAR_REST_OF_LINE = '\x1b[K'
const CLEAR_BELOW = '\x1b[J'
const BAR_WIDTH = 40

/**
 * Events scroll by above the block. A frame is one write that overwrites in place, so nothing
 * flickers.
 */
class Block implements Progress {
  readonly #out: NodeJS.WriteStream
  #lines: readonly string[] = []

  constructor(out: NodeJS.WriteStream) {
    this.#out = out
    out.write(HIDE_CURSOR)
  }

  event(elapsedMs: number, what: string): void {
    this.#draw([this.#cut(`${stamp(elapsedMs)}  ${what}`)], this.#lines)
  }

  show(snapshot: Snapshot): void {
    this.#draw(
      [],
      blockLines(snapshot).map((line) => this.#cut(line)),
    )
  }

  end(): void {
    this.#out.write(SHOW_CURSOR)
  }

  #draw(above: readonly string[], block: readonly string[]): void {
    const up = this.#lines.length === 0 ? '' : `\x1b[${this.#lines.length}A`
    const text = [...above, ...block].map((line) => `${line}${CLEAR_REST_OF_LINE}\n`).join('')
    this.#out.write(`\r${up}${text}${CLEAR_BELOW}`)
    this.#lines = block
  }

  /** A line that wraps would count as two, and the block would walk down the screen. */
  #cut(line: string): string {
    return line.slice(0, Math.max(20, this.#out.columns - 1))
  }
}

function blockLines(snapshot: Snapshot): readonly string[] {
  const { elapsedMs, total, done, running, waiting, leases, servers, workers } = snapshot
  const filled = Math.round((BAR_WIDTH * done) / Math.max(1, total))
  const bar = '█'.repeat(filled).padEnd(BAR_WIDTH, '░')
  return [
    '',
    `  jobs     ${bar}  ${done} of ${total}`,
    `           ${running} running, ${waiting} waiting, ${leases} leases held, ${seconds(elapsedMs)}`,
    `  locks    ${servers.join('   ')}`,
    `  workers  ${workers.join('   ')}`,
  ]
}

function stamp(elapsedMs: number): string {
  return seconds(elapsedMs).padStart(7)
}
