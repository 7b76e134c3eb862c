import type { Row } from '../harness.ts'
import { killed } from './killed.ts'
import { lacks } from './lacks.ts'
import { scale } from './scale.ts'
import { throughput } from './throughput.ts'

export const rows: readonly Row[] = [throughput, killed, scale, lacks]
