import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts', 'examples/testing/**/*.test.ts'],
    globalSetup: ['test/support/global-setup.ts'],
    reporters: ['default', './test/support/closing-line.ts'],
    testTimeout: 20_000,
    hookTimeout: 60_000,
    // Real servers and child processes share two cores: more files at once only makes timings worse.
    maxWorkers: 2,
    // Nothing of the project lives in a module: files can share a process, which saves loading everything a hundred times.
    isolate: false,
  },
})
