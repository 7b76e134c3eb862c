import type { Row } from '../harness.ts'
import { acquire } from './acquire.ts'
import { contended } from './contended.ts'
import { degraded } from './degraded.ts'
import { fsync } from './fsync.ts'
import { memory } from './memory.ts'
import { roundTrip } from './round-trip.ts'
import { waiters } from './waiters.ts'

export const rows: readonly Row[] = [
  acquire,
  roundTrip,
  fsync,
  contended,
  waiters,
  degraded,
  memory,
]
