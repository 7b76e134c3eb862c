/**
 * What the locks and workers of this process do, for the dashboard in the same process. It goes
 * through Node's diagnostics channels, so neither has to know the other. Without a subscriber it
 * costs one object.
 */
import { channel, subscribe, unsubscribe, type Channel } from 'node:diagnostics_channel'
import type { AttemptStatus, ExtendResult, LeaseEnd, LossReason } from './lock-observer.ts'

/** `namespace` is undefined where a processor runs in a worker that was made elsewhere. */
export type Activity = { readonly namespace: string | undefined } & (
  | { readonly kind: 'attempted'; readonly outcome: AttemptStatus }
  | { readonly kind: 'extended'; readonly outcome: ExtendResult }
  | { readonly kind: 'ended'; readonly fencingToken: number; readonly how: LeaseEnd }
  | {
      readonly kind: 'lost'
      readonly resources: readonly string[]
      readonly fencingToken: number
      readonly reason: LossReason
    }
  | { readonly kind: 'step'; readonly fencingToken: number; readonly step: string }
  | { readonly kind: 'requeued'; readonly reason: string }
)

/** Found by its name: several copies of this package in one process share it. */
const NAME = 'bullmq-redlock:activity'
export const activities: Channel<Activity> = channel(NAME) as Channel<Activity>

/** Returns how to end it. */
export function watchActivity(onActivity: (activity: Activity) => void): () => void {
  const listener = (message: unknown): void => {
    onActivity(message as Activity)
  }
  subscribe(NAME, listener)
  return () => {
    unsubscribe(NAME, listener)
  }
}
