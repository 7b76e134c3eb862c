/** One worker process of the benchmark, on Bun: for a library that runs on nothing else. */
import { bunMonotonicMs } from './bun-clock.ts'
import { peer } from './peers/bunqueue.ts'
import { serveWorker } from './serve-worker.ts'

serveWorker(peer.work, peer.add, await bunMonotonicMs())
