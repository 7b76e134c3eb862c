import type { ComposedScript } from './bullmq/composed-script.ts'

/** Runs scripts of ours in the queue's Redis. */
export interface LineRunner {
  /** `key` follows the space of our keys. */
  run(script: ComposedScript, key: string, args: readonly (string | number)[]): Promise<unknown>
  /** As `run`, with the whole name of a key. */
  runOn(script: ComposedScript, key: string, args: readonly (string | number)[]): Promise<unknown>
  /** The name of one of BullMQ's keys of the queue; that of '' is what they begin with. */
  toKey(type: string): string
}
