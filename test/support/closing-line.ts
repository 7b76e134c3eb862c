/** Ends a run with one line that a script can read: `12 passed, 0 failed, 1 skipped`. */

import { writeSync } from 'node:fs'
import type { Reporter, SerializedError, TestModule, Vitest } from 'vitest/node'

export interface Tally {
  readonly passed: number
  readonly failed: number
  readonly skipped: number
}

/**
 * Counts the tests, and as failed also what has no test of its own: a file that could not be
 * loaded, a hook that threw, an error that nobody caught, a test that never ended.
 */
export function tally(
  modules: readonly TestModule[],
  unhandled: readonly SerializedError[],
): Tally {
  const tests = modules.flatMap((module) => [...module.children.allTests()])
  const count = (state: string): number => tests.filter((t) => t.result().state === state).length
  const groups = modules.flatMap((module) => [module, ...module.children.allSuites()])
  const broken = groups.filter((group) => group.errors().length > 0).length
  return {
    passed: count('passed'),
    failed: count('failed') + count('pending') + broken + unhandled.length,
    skipped: count('skipped'),
  }
}

export function closingLine({ passed, failed, skipped }: Tally): string {
  return `${passed} passed, ${failed} failed, ${skipped} skipped`
}

const NOTHING_RAN: Tally = { passed: 0, failed: 0, skipped: 0 }

/** Vitest asks for a default export. */
export default class ClosingLine implements Reporter {
  #result = NOTHING_RAN
  #watching = false

  onInit(vitest: Vitest): void {
    this.#watching = vitest.config.watch
    if (this.#watching) return
    // Not sooner, because Vitest and the teardown may still have something to say.
    process.once('exit', (code) => {
      const { failed } = this.#result
      const silent = code !== 0 && failed === 0
      this.#print({ ...this.#result, failed: silent ? 1 : failed })
    })
  }

  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly SerializedError[]): void {
    this.#result = tally(modules, unhandled)
    if (this.#watching) this.#print(this.#result)
  }

  #print(result: Tally): void {
    writeSync(process.stdout.fd, `${closingLine(result)}\n`)
  }
}
