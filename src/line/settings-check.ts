/**
 * All that work on a queue must have the same namespace, order and slots. Else jobs of one resource
 * run at once, or wait in lines that no worker moves. A deploy that changes a setting has both for
 * a while, so a difference is reported and not refused.
 *
 * The queue's Redis has what the last LockedWorker and the last LockedQueue had. Each process looks
 * there once, when it starts, and then writes its own. A LockedWorker drops what a LockedQueue had:
 * it has reported it, and the next LockedQueue compares itself.
 */
import { systemClock } from '../clock.ts'
import { SettingsDifferError } from '../errors.ts'
import { ownScript } from './bullmq/composed-script.ts'
import type { LineRunner } from './line-runner.ts'

/** What has to be the same, and which class has it. */
export interface SharedSettings {
  readonly by: 'LockedQueue' | 'LockedWorker'
  readonly namespace: string
  readonly order: 'strict' | 'relaxed'
  readonly slots: number
}

const COMPARED = ['namespace', 'order', 'slots'] as const

const compareScript = ownScript('line/lua/compare-settings')

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
  const text = JSON.stringify({ ...mine, at: systemClock.wallNow() })
  const found = (await runner.run(compareScript, { by: mine.by, settings: text })) as string[]
  const others = found.map((each) => JSON.parse(each) as SharedSettings & { readonly at: number })
  const differences = others.flatMap((theirs) => {
    const differ = COMPARED.flatMap((name) => {
      const [here, there] = [mine[name], theirs[name]]
      return here === there ? [] : [{ name, here, there }]
    })
    if (differ.length === 0) return []
    return [new SettingsDifferError(queue, [mine.by, theirs.by], differ, new Date(theirs.at))]
  })
  return { differences, hadWorker: others.some(({ by }) => by === 'LockedWorker') }
}
