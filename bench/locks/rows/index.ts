import type { Row } from '../row.ts'
import { acquire } from './acquire.ts'
import { contended } from './contended.ts'
import { degraded } from './degraded.ts'
import { memory } from './memory.ts'

export const rows: readonly Row[] = [acquire, contended, degraded, memory]
