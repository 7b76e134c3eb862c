/**
 * All that work on a queue must have the same order and slots, and workers the same namespace. Else
 * jobs of one resource run at once, or wait in lines that no worker moves. A deploy that changes a
 * setting has both for a while, so a difference is reported and not refused.
 *
 * The queue's Redis has what the last LockedWorker and the last LockedQueue had. Each process looks
 * there once, when it starts, and then writes its own. A LockedWorker drops what a LockedQueue had:
 * it has reported it, and the next LockedQueue compares itself. `obliterate` takes them all, so the
 * next sweep of a LockedWorker writes its own again.
 */
import { systemClock } from '../clock.ts'
import { SettingsDifferError, type SettingDifference } from '../errors.ts'
import type { LineRunner } from './line-runner.ts'

/** What has to be the same, and which class has it. */
export interface SharedSettings {
  readonly by: 'LockedQueue' | 'LockedWorker'
  /** Of a worker: that of its locks. */
  readonly namespace?: string
  readonly order: 'strict' | 'relaxed'
  readonly slots: number
}

const COMPARED = ['namespace', 'order', 'slots'] as const

/** As the queue's Redis has them. */
export function settingsText(mine: SharedSettings): string {
  return JSON.stringify({ ...mine, at: systemClock.wallNow() })
}

/** The settings that were in use before, and what differs from them. */
export async function compareSettings(
  runner: LineRunner,
  queue: string,
  mine: SharedSettings,
): Promise<{
  readonly differences: readonly SettingsDifferError[]
  /** A LockedWorker has worked on this queue. */
  readonly hadWorker: boolean
}> {
  const args = { by: mine.by, settings: settingsText(mine) }
  const found = (await runner.run('line/lua/compare-settings', args)) as string[]
  const others = found.map((each) => JSON.parse(each) as SharedSettings & { readonly at: number })
  const differences = others.flatMap((theirs) => {
    const differ = differencesOf(mine, theirs)
    if (differ.length === 0) return []
    return [new SettingsDifferError(queue, [mine.by, theirs.by], differ, new Date(theirs.at))]
  })
  return { differences, hadWorker: others.some(({ by }) => by === 'LockedWorker') }
}

/** The options that are not the same. */
export function differencesOf(
  mine: SharedSettings,
  theirs: SharedSettings,
): readonly SettingDifference[] {
  return COMPARED.flatMap((name) => {
    const [here, there] = [mine[name], theirs[name]]
    const isOther = here !== undefined && there !== undefined && here !== there
    return isOther ? [{ name, here, there }] : []
  })
}
