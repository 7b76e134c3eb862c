/** The loads, in the order of the table. */
import type { Row } from '../row.ts'
import { contended } from './contention.ts'
import { throughput, uncontended } from './overhead.ts'
import { crash, twins } from './recovery.ts'
import { backlog, coldJobs, handOff } from './waiting.ts'

export const rows: readonly Row[] = [
  contended('one line', 1, 60, 50, ['strict', 'gate', 'relaxed', 'woken', 'groupmq'], {
    makespan: 1.03,
  }),
  contended('ten lines', 10, 30, 20, ['strict', 'gate', 'woken', 'groupmq'], { makespan: 1.1 }),
  uncontended,
  throughput,
  handOff,
  coldJobs,
  twins,
  crash,
  backlog,
]
