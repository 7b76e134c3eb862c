/** What a user may not call, as `lua/rights.lua` says it. */
import { QueueDeniedError } from '../errors.ts'
import { messageOf } from '../message-of.ts'

/** A user that may only read may run these. */
const READS = /^get|\/(read|peek)-|\/(position|places|census|queue-gate|may-take|fence)$/
const DENIED = /^NOPERM denied commands: (.*)/

/** Whether a script changes jobs, and so asks for its rights. @param name of it, or its path. */
export function mayChange(name: string): boolean {
  return !READS.test(name)
}

/** What to throw for what a script, or a question with several keys, was refused with. */
export function asRefused(error: unknown, queue: string): unknown {
  if (messageOf(error).startsWith('CROSSSLOT')) {
    const fix = 'give its prefix in braces, such as {bull}, wherever the queue is used'
    return new Error(`The Redis of queue \`${queue}\` is a cluster: ${fix}`, { cause: error })
  }
  const [, commands] = DENIED.exec(messageOf(error)) ?? []
  return commands === undefined ? error : new QueueDeniedError(queue, commands.split(' '))
}
