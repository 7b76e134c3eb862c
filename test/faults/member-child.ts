/**
 * The process of a client: obeys the harness, and ends by itself when it must leave and nothing
 * is left behind.
 */
import type { MemberEvent } from './history.ts'
import { Member } from './member.ts'
import type { Command, Report } from './orders.ts'

/**
 * Events travel in small batches; those of the last moment before a kill are lost, but for the ones
 * that judge others.
 */
const BATCH_MS = 10
const URGENT = new Set<MemberEvent['kind']>(['paused', 'granted', 'ended'])

let member: Member | undefined
let batch: MemberEvent[] = []
let timer: NodeJS.Timeout | undefined

function send(report: Report): void {
  if (process.connected) process.send?.(report)
}

function flush(): void {
  clearTimeout(timer)
  timer = undefined
  if (batch.length > 0) send({ report: 'events', events: batch })
  batch = []
}

function report(event: MemberEvent): void {
  batch.push(event)
  // A pause stops the process before any timer could run.
  if (URGENT.has(event.kind)) flush()
  else timer ??= setTimeout(flush, BATCH_MS)
}

async function obey(command: Command): Promise<void> {
  switch (command.command) {
    case 'begin':
      member = await Member.begin(command.orders, report)
      send({ report: 'begun' })
      return
    case 'end':
      await member?.end()
      member = undefined
      flush()
      send({ report: 'ended' })
      return
    case 'leave':
      process.disconnect()
      return
  }
}

process.on('unhandledRejection', (error) => {
  report({ kind: 'problem', message: `unhandled rejection: ${String(error)}` })
})
// Ctrl-C is for the harness, which then ends its clients.
process.on('SIGINT', () => undefined)
process.on('message', (command: Command) => {
  void obey(command)
})
process.on('disconnect', () => {
  // The harness is gone, so no "end" will come.
  if (member !== undefined) process.exit(1)
})
send({ report: 'ready' })
