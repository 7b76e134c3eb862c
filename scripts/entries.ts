/** What the package is made of: each file of `dist/` that applications import, and its source. */
export const ENTRIES = {
  index: 'src/index.ts',
  queue: 'src/queue.ts',
  dashboard: 'src/tools/dashboard/index.ts',
  testing: 'src/testing/index.ts',
  etcd: 'src/services/etcd/index.ts',
  fenced: 'src/fenced/index.ts',
  postgres: 'src/services/postgres/index.ts',
  zookeeper: 'src/services/zookeeper/index.ts',
} as const

/** The program, which nobody imports. */
export const PROGRAM = { cli: 'src/tools/cli/main.ts' } as const
