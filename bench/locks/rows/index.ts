import type { Row } from '../row.ts'
import { acquire } from './acquire.ts'
import { contended } from './contended.ts'
import { degraded } from './degraded.ts'
import { extend } from './extend.ts'
import { memory } from './memory.ts'
import { scale } from './scale.ts'

export const rows: readonly Row[] = [acquire, contended, degraded, extend, memory, scale]
