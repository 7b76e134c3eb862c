import { defineConfig } from 'vitest/config'
import { SlowFirst } from './test/support/slow-first.ts'

/** Other lock services, on servers of their own kind: `npm run test:services`. */
const SERVICES = [
  'test/services/**/*.test.ts',
  'test/stories/{demo-locks,lock-services}.test.ts',
  'test/tools/cli/lock-services.test.ts',
]
/**
 * What people do from beginning to end, and what breaks meanwhile: the README, the tutorial, the
 * demo, the examples, the page in a browser, every outage. `npm run test:stories`.
 */
const STORIES = [
  'test/stories/{migration,outage-*,queue-*,readme,resize,tutorial}.test.ts',
  'test/{deploy/live-monitoring,line/limits-crash,tools/dashboard/page}.test.ts',
  'test/{docs/recipes,examples/nestjs}.test.ts',
  'test/workers/{demo,dev,ledger,modules}.test.ts',
  'test/sharded/{cuts,disturbed-cluster,sharded-queue}.test.ts',
  'test/tools/{cli/cluster,operator/resize}.test.ts',
]
/** Every state of a small fleet, also by Spin: `npm run test:model`. */
const MODEL = ['test/model/explorer.test.ts', 'test/specification/spin.test.ts']
/**
 * The package as applications install and load it, beside every BullMQ and ioredis that it admits:
 * `npm run test:package`.
 */
const PACKAGE = [
  'test/package/**/*.test.ts',
  'test/compatibility/versions.test.ts',
  'test/redlock/wire/ioredis-versions.test.ts',
  'test/tools/dashboard/bundle.test.ts',
]

export default defineConfig({
  test: {
    projects: [
      {
        extends: true,
        test: {
          name: 'tests',
          include: ['{test,bench,examples/testing}/**/*.test.ts'],
          exclude: ['**/node_modules/**', ...SERVICES, ...STORIES, ...MODEL, ...PACKAGE],
        },
      },
      { extends: true, test: { name: 'services', include: SERVICES } },
      { extends: true, test: { name: 'stories', include: STORIES } },
      { extends: true, test: { name: 'model', include: MODEL } },
      { extends: true, test: { name: 'package', include: PACKAGE } },
    ],
    globalSetup: ['test/support/global-setup.ts'],
    reporters: ['default', './test/support/closing-line.ts'],
    sequence: { sequencer: SlowFirst },
    // For what hangs. What is slow on a busy machine has its limit where it is measured.
    testTimeout: 120_000,
    hookTimeout: 180_000,
    // Three for each core: tests wait for servers and timers most of the time. CI has time, and may
    // be slow: one for each core makes each of them steady.
    maxWorkers: process.env['CI'] === undefined ? 6 : 2,
    // Nothing of the project lives in a module: files can share a process, which saves loading
    // everything a hundred times.
    isolate: false,
  },
})
