/**
 * The order of test files. Vitest begins with those that took long the last time, and in a fresh
 * clone it knows of none. A slow file that begins late runs while the other processes are idle.
 * Those that compare with BullMQ come last: some of its workers never close.
 */
import { relative } from 'node:path'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Some ten seconds and more, the slowest first. */
const SLOW = [
  'test/tools/operator/answers.test.ts',
  'test/line/shares.test.ts',
  'test/hazards/compared.test.ts',
  'test/compatibility/plain-queue.test.ts',
  'test/stories/tutorial.test.ts',
  'test/tools/dashboard/page.test.ts',
  'test/workers/demo.test.ts',
  'test/workers/modules.test.ts',
  'test/examples/nestjs.test.ts',
  'test/line/limits-crash.test.ts',
  'test/stories/readme.test.ts',
  'test/compatibility/versions.test.ts',
  'test/line/limits.test.ts',
  'test/line/line.test.ts',
  'test/tools/operator/resize.test.ts',
  'test/faults/masters-forget.test.ts',
  'test/faults/network.test.ts',
  'test/worker/queue-trouble.test.ts',
  'test/testing/lock-service-cases.test.ts',
  'test/tools/cli/quiet-logs.test.ts',
  'test/line/batches.test.ts',
  'test/worker/clocks.test.ts',
  'test/redlock/fleet/refusing-masters.test.ts',
  'test/faults/frozen.test.ts',
  'test/sharded/concurrency.test.ts',
  'test/combination/combination.test.ts',
  'test/worker/coordination.test.ts',
  'test/bad-input/worker-jobs.test.ts',
  'test/worker/locked-worker.test.ts',
  'test/faults/masters-die.test.ts',
  'test/fenced/fenced.test.ts',
  'test/deploy/live-monitoring.test.ts',
  'test/compatibility/connections.test.ts',
  'test/redlock/wire/enrolment.test.ts',
  'test/docs/api.test.ts',
]

export class SlowFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification): number => {
      const path = relative(this.ctx.config.root, moduleId)
      const index = SLOW.indexOf(path)
      const isLast = path.startsWith('test/compatibility/')
      return (index < 0 ? SLOW.length : index) + (isLast ? SLOW.length : 0)
    }
    const sorted = await super.sort(files)
    return sorted.toSorted((a, b) => place(a) - place(b))
  }
}
