/** An episode that failed, for an engineer: what was done and seen, in the order of time. */
import type { Done, History } from './history.ts'
import { type JobPlan, type Operation, type Plan, type Settings, DEFAULTS } from './plan.ts'
import type { Violation } from './oracle.ts'
import type { Seen } from './seen.ts'

const NAME_WIDTH = 9
const MOST_LINES = 400
const ID_PREFIX = /e\d+-\d+:/g

/** @param most events. */
export function describe(
  history: History,
  violations: readonly Violation[],
  most: number = MOST_LINES,
): string {
  const { plan, startedAt } = history
  const lines = [
    `features: ${plan.features.join(', ')}`,
    `options:  ${describeSettings(plan.settings)}`,
    '',
    ...timeline(history, most),
    '',
    ...violations.map(({ rule, detail, at }) => {
      const time = at === undefined ? '' : ` at ${(at - startedAt).toFixed(1)}`
      return `VIOLATION ${rule}${time}: ${relative(detail, startedAt)}`
    }),
  ]
  return lines.join('\n').replaceAll(ID_PREFIX, '')
}

/** Times of the machine's clock in a text, as times of the episode. */
function relative(text: string, startedAt: number): string {
  return text.replaceAll(/\d{5,}\.\d\b/g, (time) => {
    const since = Number(time) - startedAt
    return since >= 0 && since < 3_600_000 ? `${since.toFixed(1)} ms` : time
  })
}

function timeline(
  { done, seen, beside, startedAt, settlingAt, settledAt }: History,
  most: number,
): readonly string[] {
  const events = [
    ...done.map((each) => ({ at: each.at, text: describeDone(each) })),
    ...[...seen, ...(beside?.seen ?? [])].flatMap((event) => {
      const text = describeSeen(event)
      return text === undefined || !('at' in event) ? [] : [{ at: event.at, text }]
    }),
    { at: settlingAt, text: `${'settle'.padEnd(NAME_WIDTH)} all is put right; a fresh worker` },
    { at: settledAt, text: 'settled'.padEnd(NAME_WIDTH) },
  ]
  const sorted = events.sort((a, b) => a.at - b.at)
  const shown = sorted.slice(0, most)
  const left = sorted.length - shown.length
  return [
    ...shown.map(({ at, text }) => `${(at - startedAt).toFixed(1).padStart(8)}  ${text}`),
    ...(left > 0 ? [`          … and ${left} more`] : []),
  ]
}

function describeDone({ operation, at, endedAt, answer, error }: Done): string {
  const took = endedAt === undefined ? 'no answer' : `${(endedAt - at).toFixed(1)} ms`
  const said = error ?? (answer === undefined ? '' : JSON.stringify(answer))
  return `${'call'.padEnd(NAME_WIDTH)} ${describeOperation(operation)} → ${took} ${said.slice(0, 200)}`
}

export function describeOperation(operation: Operation): string {
  const { do: what, afterMs: _, waits: __, ...rest } = operation
  const details = Object.entries(rest).map(([name, value]) => {
    if (name === 'job' || name === 'parent') return describeJob(value as JobPlan)
    if (name === 'jobs' || name === 'children') {
      return `[${(value as unknown as JobPlan[]).map(describeJob).join('; ')}]`
    }
    return `${name} ${JSON.stringify(value)}`
  })
  return `${what}(${details.join(', ')})`
}

function describeJob({ data, opts }: JobPlan): string {
  const { uid, resources, work } = data
  const { ms, ...more } = Object.fromEntries(
    Object.entries(work).filter(([, value]) => Boolean(value)),
  )
  const given = { ...more, ...opts }
  const rest = Object.keys(given).length === 0 ? '' : ` ${JSON.stringify(given)}`
  return `${uid} on ${resources.join('+')} ${String(ms ?? 0)} ms${rest}`
}

function describeSettings(settings: Settings): string {
  const changed = Object.entries(settings).filter(
    ([name, value]) => JSON.stringify(value) !== JSON.stringify(DEFAULTS[name as keyof Settings]),
  )
  return changed.map(([name, value]) => `${name} ${JSON.stringify(value)}`).join(', ') || 'defaults'
}

function describeSeen(event: Seen): string | undefined {
  const kind = event.kind.padEnd(NAME_WIDTH)
  switch (event.kind) {
    case 'active':
    case 'requeued':
    case 'completed':
    case 'leaseLost':
    case 'lockLost':
    case 'stalled':
      return `${kind} job ${event.id} on ${event.worker}`
    case 'failed':
      return `${kind} job ${event.id} on ${event.worker}: ${event.reason}`
    case 'started': {
      const { uid, id, run, attempt, fencingToken, resources } = event
      return `${kind} ${uid} (job ${id}) as ${run}, attempt ${attempt + 1}, on ${resources.join('+')}, token ${fencingToken}`
    }
    case 'step':
      return `${kind} ${event.step} of ${event.run}`
    case 'stopped':
      return `${kind} ${event.run}: ${event.reason}`
    case 'ended':
      return `${kind} ${event.run} ${event.outcome}${event.error === undefined ? '' : `: ${event.error}`}`
    case 'error':
      return `${kind} ${event.worker}: ${event.message}`
    case 'forgotten':
      return `${kind} step of ${event.run} has ended`
    case 'stepValue':
      return undefined
  }
}

/** As a file for `--plan`. */
export function planText(plan: Plan): string {
  return JSON.stringify(plan)
}
