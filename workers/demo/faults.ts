/**
 * The demo's faults. Each strikes at a known place and then looks for its own effect: a fault that
 * was not seen to have happened proves nothing, and fails the run.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { WorkerProcesses, Member } from './worker-processes.ts'
import type { LockServers } from './lock-servers.ts'
import type { JobFacts, Report } from './messages.ts'
import type { Plan } from './options.ts'

/** A fault, when it struck, what was seen of it, and what should have been seen and was not. */
export interface Fault {
  readonly name: string
  readonly atMs: number
  readonly seen: readonly string[]
  readonly missing?: string
}

/** Where the faults strike. */
export interface Stage {
  readonly plan: Plan
  readonly workers: WorkerProcesses
  readonly locks: LockServers
  readonly signal: AbortSignal
  random(): number
  elapsedMs(): number
  /** Jobs that workers reported as finished. */
  done(): number
  say(event: string): void
}

const SEEN_WITHIN_MS = 90_000
const POLL_MS = 20

/** kill -9 a worker in the middle of a job, and start another in its place. */
export function killWorker(stage: Stage): Promise<Fault> {
  return observed('worker killed', stage, async (saw) => {
    const { victim, held } = await holdSomeone(stage)
    const interrupted = victim.open.size
    // Looked for from now on: where this process is slow, the job's lease is over before the kill.
    const again = seen(stage, `${held.jobId} running again`, (report, by) => {
      const isAgain = report.type === 'opened' && report.jobId === held.jobId
      return isAgain && by !== victim ? report : undefined
    })
    again.catch(() => undefined) // Reported below.
    await victim.kill()
    saw(
      `${victim.name} killed (kill -9) between read and write of ${held.jobId}; ${interrupted} jobs were open`,
    )
    const replacement = stage.workers.add()
    stage.say(`${replacement.name} started in its place`)
    const killedAt = stage.elapsedMs()
    const { member } = await again
    const afterMs = Math.round(stage.elapsedMs() - killedAt)
    saw(`${held.jobId} ran again on ${member.name}, ${afterMs} ms after the kill`)
  })
}

/**
 * Kill a lock server, and bring it back: a master without its memory, another server with its data.
 */
export function loseServer(stage: Stage): Promise<Fault> {
  const { locks } = stage
  return observed(locks.lossName, stage, async (saw) => {
    const server = locks.pick(stage.random())
    const isAlone = locks.states().length === 1
    const before = stage.done()
    await server.kill()
    saw(`${server.name} killed (kill -9)`)
    if (server.state !== undefined) {
      await until(
        stage,
        `${server.name} missing from the vote`,
        () => server.state?.() !== 'voting',
      )
    }
    if (!isAlone) await until(stage, 'jobs done without it', () => stage.done() > before)
    await delay(stage.plan.leaseMs, undefined, { signal: stage.signal })
    const meanwhile = `after ${stage.done() - before} jobs without it`
    await server.restart()
    if (server.state === undefined) {
      saw(`${server.name} back with its data, ${meanwhile}`)
      return
    }
    await until(stage, `${server.name} in quarantine`, () => server.state?.() === 'quarantined')
    saw(`${server.name} back without memory, ${meanwhile}: in quarantine`)
    await until(stage, `${server.name} voting again`, () => server.state?.() === 'voting')
    saw(`${server.name} votes again`)
  })
}

/**
 * Freeze a worker after it checked its lease and before its write leaves. It is thawed when another
 * worker has posted to the same ledger, so its write is stale for certain.
 */
export function freezeWorker(stage: Stage): Promise<Fault> {
  return observed('worker frozen', stage, async (saw) => {
    const { victim, held } = await holdSomeone(stage)
    // As above: another worker may be given the job before the signal arrives.
    const overtaken = seen(stage, `another worker posting for ${held.customer}`, (report, by) => {
      const isPosted = report.type === 'posted' && overtakes(stage, report, held)
      return isPosted && by !== victim ? report : undefined
    })
    victim.freeze()
    const frozenAt = stage.elapsedMs()
    saw(`${victim.name} frozen (SIGSTOP) just before it writes ${held.jobId} for ${held.customer}`)
    const { member: overtaker } = await overtaken
    const pastLeaseMs = frozenAt + stage.plan.leaseMs - stage.elapsedMs()
    if (pastLeaseMs > 0) await delay(pastLeaseMs, undefined, { signal: stage.signal })
    victim.thaw()
    saw(`${overtaker.name} posted for ${held.customer}; ${victim.name} thawed`)
    const { report } = await seen(stage, `the late write of ${held.jobId}`, (outcome, by) => {
      if (outcome.type !== 'refused' && outcome.type !== 'posted') return undefined
      return by === victim && outcome.jobId === held.jobId ? outcome : undefined
    })
    const frozenMs = Math.round(stage.elapsedMs() - frozenAt)
    if (report.type === 'refused') {
      const { fencingToken, currentToken } = report
      saw(
        `the ledger refused the write of ${held.jobId}, ${frozenMs} ms late: it has token` +
          ` ${fencingToken}, the ledger had seen ${currentToken}`,
      )
      return
    }
    saw(`the ledger took the stale write of ${held.jobId}, ${frozenMs} ms late`)
    if (stage.plan.without === undefined)
      throw new Error('a refusal of the stale write was not seen')
  })
}

/** Without a lease there are no tokens to compare. */
function overtakes({ plan }: Stage, report: JobFacts, held: JobFacts): boolean {
  if (report.customer !== held.customer) return false
  return plan.without === 'lease' || report.fencingToken > held.fencingToken
}

/**
 * Stops the worker that opens the next job before it writes: one without a job may get none any
 * more.
 */
async function holdSomeone(stage: Stage): Promise<{ victim: Member; held: JobFacts }> {
  const { member: victim } = await seen(stage, 'a job being opened', (report, member) => {
    if (report.type !== 'opened' || member.state !== 'working' || member.chosen) return undefined
    // Taken while we look: another fault may look at this very report.
    member.chosen = true
    return report
  })
  const holding = seen(stage, `a write of ${victim.name}`, (report, member) => {
    return report.type === 'holding' && member === victim ? report : undefined
  })
  victim.order('hold')
  const { report } = await holding
  return { victim, held: report }
}

/** Runs a fault; what it saw is said at once and kept, what it missed is kept. */
async function observed(
  name: string,
  stage: Stage,
  strike: (saw: (what: string) => void) => Promise<void>,
): Promise<Fault> {
  const seenSoFar: string[] = []
  let atMs = stage.elapsedMs()
  const saw = (what: string): void => {
    if (seenSoFar.length === 0) atMs = stage.elapsedMs()
    seenSoFar.push(what)
    stage.say(what)
  }
  try {
    await strike(saw)
    return { name, atMs, seen: seenSoFar }
  } catch (error) {
    if (stage.signal.aborted) throw error
    const missing = error instanceof Error ? error.message : String(error)
    stage.say(`${name}: ${missing}`)
    return { name, atMs, seen: seenSoFar, missing }
  }
}

function seen<Found extends Report>(
  { workers, signal }: Stage,
  what: string,
  match: (report: Report, member: Member) => Found | undefined,
): Promise<{ readonly report: Found; readonly member: Member }> {
  return workers.until(what, SEEN_WITHIN_MS, signal, match)
}

async function until(stage: Stage, what: string, holds: () => boolean): Promise<void> {
  const deadline = stage.elapsedMs() + SEEN_WITHIN_MS
  while (!holds()) {
    if (stage.elapsedMs() > deadline) throw new Error(`${what} was not seen in time`)
    await delay(POLL_MS, undefined, { signal: stage.signal })
  }
}
