/** A process with one worker at a time. It may be killed, and its clock may be set. */
import { argv } from 'node:process'
import { serve } from '../support/remote-process.ts'
import { readyLocks, type LocksSettings } from './servers.ts'
import type { Seen } from './seen.ts'
import { WorkerHost, type Command, type HostSetup } from './worker-host.ts'

export interface ChildCalls {
  open: { readonly argument: HostSetup; readonly answer: null }
  obey: { readonly argument: Command; readonly answer: unknown }
}

export type ChildEvent = Seen | { readonly unhandled: string }

const locks = await readyLocks(JSON.parse(argv[2] ?? '{}') as LocksSettings)
const trueNow = Date.now
let aheadMs = 0
Date.now = () => trueNow() + aheadMs
let host: WorkerHost | undefined

const tell: (event: ChildEvent) => void = serve<ChildCalls>({
  open(setup) {
    host = new WorkerHost(setup, locks, tell)
    return null
  },
  obey(command) {
    if (command.do === 'stepClock') ({ aheadMs } = command)
    return host?.obey(command)
  },
})
process.on('unhandledRejection', (error) => {
  tell({ unhandled: String(error) })
})
