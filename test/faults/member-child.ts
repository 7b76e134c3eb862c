/**
 * The process of a client: obeys the harness, and ends by itself when it must leave and nothing
 * is left behind.
 */
import { serve } from '../support/remote-process.ts'
import type { MemberEvent } from './history.ts'
import { Member } from './member.ts'
import type { MemberCalls } from './orders.ts'

/**
 * Events travel in small batches; those of the last moment before a kill are lost, but for the ones
 * that judge others.
 */
const BATCH_MS = 10
const URGENT = new Set<MemberEvent['kind']>(['paused', 'granted', 'ended'])

let member: Member | undefined
let batch: MemberEvent[] = []
let timer: NodeJS.Timeout | undefined

function flush(): void {
  clearTimeout(timer)
  timer = undefined
  if (batch.length > 0) tell(batch)
  batch = []
}

function report(event: MemberEvent): void {
  batch.push(event)
  // A pause stops the process before any timer could run.
  if (URGENT.has(event.kind)) flush()
  else timer ??= setTimeout(flush, BATCH_MS)
}

process.on('unhandledRejection', (error) => {
  report({ kind: 'problem', message: `unhandled rejection: ${String(error)}` })
})
const tell: (events: readonly MemberEvent[]) => void = serve<MemberCalls>(
  {
    async begin(orders) {
      member = await Member.begin(orders, report)
      return null
    },
    async end() {
      await member?.end()
      member = undefined
      flush()
      return null
    },
  },
  () => {
    // The harness is gone, so no "end" will come.
    if (member !== undefined) process.exit(1)
  },
)
