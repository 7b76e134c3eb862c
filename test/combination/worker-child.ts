/** A process with one worker at a time. It may be killed, and its clock may be set. */
import { argv } from 'node:process'
import { openRedlock, type RedlockSettings } from './servers.ts'
import { cutConnection, WorkerHost, type HostSetup } from './worker-host.ts'

export type Command =
  | { readonly do: 'open'; readonly setup: HostSetup }
  | { readonly do: 'close'; readonly force: boolean }
  | { readonly do: 'drain'; readonly timeoutMs: number }
  | { readonly do: 'pause' | 'resume' | 'cut' }
  | { readonly do: 'cancel'; readonly id: string }
  | { readonly do: 'ask'; readonly id: string; readonly resource: string }
  | { readonly do: 'cancelAll' }
  | { readonly do: 'setConcurrency'; readonly most: number }
  | { readonly do: 'stepClock'; readonly aheadMs: number }

const redlock = openRedlock(JSON.parse(argv[2] ?? '{}') as RedlockSettings)
const trueNow = Date.now
let aheadMs = 0
Date.now = () => trueNow() + aheadMs
let host: WorkerHost | undefined

async function run(command: Command): Promise<unknown> {
  switch (command.do) {
    case 'open':
      host = new WorkerHost(command.setup, redlock, (event) => process.send?.({ event }))
      return undefined
    case 'close':
      return host?.close(command.force)
    case 'drain':
      return host?.drain(command.timeoutMs)
    case 'pause':
      return host?.worker.pause(true)
    case 'resume':
      return host?.worker.resume()
    case 'cut':
      return host && cutConnection(host.worker)
    case 'cancel':
      return host?.worker.cancelJob(command.id)
    case 'cancelAll':
      host?.worker.cancelAllJobs()
      return undefined
    case 'setConcurrency':
      return host?.setConcurrency(command.most)
    case 'ask':
      return host?.ask(command.id, command.resource)
    case 'stepClock':
      aheadMs = command.aheadMs
      return undefined
  }
}

process.on('message', ({ id, command }: { id: number; command: Command }) => {
  run(command).then(
    (answer) => process.send?.({ id, answer }),
    (error: unknown) => process.send?.({ id, error: String(error) }),
  )
})
process.on('disconnect', () => process.exit())
process.on('unhandledRejection', (error) => {
  process.send?.({ unhandled: String(error) })
})
await redlock.ready()
process.send?.({ ready: true })
