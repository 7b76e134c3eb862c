/** Makes a failing plan smaller: fewer operations, fewer options, and the same rule broken. */
import { runEpisode } from './episode.ts'
import type { History } from './history.ts'
import { DEFAULTS, type Operation, type Plan, type Settings } from './plan.ts'
import { verdictOf } from './judged.ts'
import type { Violation } from './oracle.ts'
import type { World } from './world.ts'

export interface Failure {
  readonly plan: Plan
  readonly history: History
  readonly violations: readonly Violation[]
}

/** Runs a plan so many times beside itself, and returns a run that broke the rule. */
export async function tryPlan(
  world: World,
  plan: Plan,
  rule: string | undefined,
  times: number,
): Promise<Failure | undefined> {
  const runs = Array.from({ length: times }, async () => {
    const { history, violations } = verdictOf(await runEpisode(world, plan))
    const isFound = violations.some((each) => rule === undefined || each.rule === rule)
    return isFound ? { plan, history, violations } : undefined
  })
  const failures = await Promise.all(runs)
  return failures.find((failure) => failure !== undefined)
}

export async function shrink(
  world: World,
  failure: Failure,
  { times, untilMs }: { readonly times: number; readonly untilMs: number },
): Promise<Failure> {
  const rule = failure.violations[0]?.rule
  let best = failure
  const attempt = async (plan: Plan): Promise<boolean> => {
    if (performance.now() > untilMs) return false
    const smaller = await tryPlan(world, plan, rule, times)
    if (smaller === undefined) return false
    best = smaller
    return true
  }
  for (let size = Math.ceil(best.plan.operations.length / 2); size >= 1;) {
    let isSmaller = false
    for (let from = best.plan.operations.length - size; from > -size; from -= size) {
      const operations = best.plan.operations.toSpliced(Math.max(0, from), size + Math.min(0, from))
      if (await attempt({ ...best.plan, operations })) isSmaller = true
    }
    if (size === 1 && !isSmaller) break
    if (size > 1) size = Math.floor(size / 2)
  }
  for (const name of Object.keys(best.plan.settings) as (keyof Settings)[]) {
    const { settings } = best.plan
    if (JSON.stringify(settings[name]) === JSON.stringify(DEFAULTS[name])) continue
    await attempt({ ...best.plan, settings: { ...settings, [name]: DEFAULTS[name] } })
  }
  for (const index of best.plan.operations.keys()) {
    for (const simpler of simplerForms(best.plan.operations[index] as Operation)) {
      await attempt({ ...best.plan, operations: best.plan.operations.with(index, simpler) })
    }
  }
  return best
}

function simplerForms(operation: Operation): readonly Operation[] {
  const forms: Operation[] = []
  if (!operation.waits) forms.push({ ...operation, waits: true })
  if (operation.do === 'add') {
    const { job } = operation
    const { data, opts } = job
    for (const name of Object.keys(opts) as (keyof typeof opts)[]) {
      const { [name]: _, ...rest } = opts
      forms.push({ ...operation, job: { data, opts: rest } })
    }
    const work = { ms: data.work.ms, fails: 0, steps: 0 }
    forms.push({ ...operation, job: { opts, data: { ...data, work } } })
  }
  return forms
}
