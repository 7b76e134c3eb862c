/** `npm run demo`: see DEMO_HELP in options.ts. */
import { setTimeout as delay } from 'node:timers/promises'
import { readPlan } from './options.ts'
import { problems } from './outcome.ts'
import { progressOn } from './progress.ts'
import { humanReport, jsonReport } from './report.ts'
import { runDemo } from './run.ts'
import { runProgram } from '../run-program.ts'
import { Closing, watchSignals } from './stopping.ts'

const CLOSE_LIMIT_MS = 10_000

async function main(): Promise<number> {
  const plan = readPlan()
  const stopping = watchSignals()
  const tooLong = AbortSignal.timeout(plan.limitMs)
  const progress = progressOn(process.stdout, plan.json)
  const closing = new Closing()
  try {
    const signal = AbortSignal.any([stopping.signal, tooLong])
    const outcome = await stoppable(runDemo(plan, progress, closing, signal), stopping.signal)
    progress.end()
    process.stdout.write(plan.json ? `${jsonReport(outcome)}\n` : humanReport(outcome))
    return problems(outcome).length === 0 ? 0 : 1
  } catch (error) {
    progress.end()
    if (stopping.signal.aborted) return (await stopping.stopped) === 'SIGINT' ? 130 : 143
    if (!tooLong.aborted) throw error
    throw new Error(`Not done after ${plan.limitMs} ms (seed ${plan.seed}): stuck`, {
      cause: error,
    })
  } finally {
    // Whatever does not close in time ends with this process: servers by their reaper, workers by
    // themselves.
    const closed = closing.run().catch((error: unknown) => {
      // A server that was still starting may not be closed in order.
      if (!stopping.signal.aborted) throw error
    })
    await Promise.race([closed, delay(CLOSE_LIMIT_MS, undefined, { ref: false })])
    stopping.forget()
  }
}

/** Stops waiting for the run at once, even while its servers are starting. */
async function stoppable<T>(run: Promise<T>, signal: AbortSignal): Promise<T> {
  const stopped = new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => {
      reject(signal.reason as Error)
    })
  })
  return Promise.race([run, stopped])
}

await runProgram(main)
