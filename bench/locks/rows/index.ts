import type { Row } from '../harness.ts'
import { acquire } from './acquire.ts'
import { degraded } from './degraded.ts'
import { fsync } from './fsync.ts'
import { memory } from './memory.ts'
import { roundTrip } from './round-trip.ts'
import { waiters } from './waiters.ts'

export const rows: readonly Row[] = [acquire, roundTrip, fsync, waiters, degraded, memory]
