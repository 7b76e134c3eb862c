/** A worker process whose every fetch is refused. It says so, where it has time for it. */
import { LockedWorker, Redlock, silentLogger } from '../../src/index.ts'

const [queue = '', port = '', username = '', namespace = '', ...masters] = process.argv.slice(2)
const redlock = new Redlock({ masters, namespace, logger: silentLogger })
const connection = { port: Number(port), username, password: 'secret' }
const worker = new LockedWorker(queue, () => Promise.resolve(), {
  ...{ connection, redlock, resource: () => 'a', logger: silentLogger },
})
let errors = 0
worker.on('error', ({ message }) => {
  errors++
  if (errors > 1) return
  console.log(message)
  setTimeout(() => {
    console.log(`${errors} errors in a second`)
  }, 1_000)
})
process.once('SIGTERM', () => {
  void worker.close().then(() => redlock.close())
})
