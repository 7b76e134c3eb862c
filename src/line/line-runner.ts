import type { ComposedScript } from './bullmq/composed-script.ts'

/** What a script of ours is given, by name. What is undefined is absent. */
export type Arguments = Readonly<Record<string, unknown>>

/** Runs scripts of ours in the queue's Redis. */
export interface LineRunner {
  run(script: ComposedScript, args: Arguments): Promise<unknown>
  /** The whole name of one of our keys. */
  keyOf(key: string): string
}
