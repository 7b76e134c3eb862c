/**
 * The order of test files. Vitest begins with those that took long the last time, and in a fresh
 * clone it knows of none. A slow file that begins late runs while the other processes are idle.
 * Those that compare with BullMQ come last: some of its workers never close.
 */
import { relative } from 'node:path'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Some ten seconds and more, the slowest first. */
const SLOW = `
  worker/queue-trouble line/shares sharded/calls-in-outages line/limits tools/operator/answers
  deploy/kubernetes worker/crash hazards/compared redlock/fleet/refusing-masters worker/queue-cuts
  workers/demo workers/modules examples/nestjs stories/tutorial tools/dashboard/page stories/readme
  line/limits-crash tools/operator/resize worker/clocks line/line tools/cli/jobs tools/cli/quiet-logs
  testing/lock-service-cases faults/network faults/masters-forget bad-input/worker-jobs
  worker/locked-worker tools/cli/doctor redlock/coordination worker/coordination worker/ending
  line/batches combination/combination sharded/concurrency sim/scripts-equal-model faults/frozen
  faults/masters-die fenced/fenced deploy/live-monitoring redlock/wire/enrolment docs/api
  compatibility/versions compatibility/connections compatibility/plain-queue compatibility/by-hand
  compatibility/producers compatibility/page compatibility/events compatibility/worker
`
  .trim()
  .split(/\s+/)

export class SlowFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification): number => {
      const path = relative(this.ctx.config.root, moduleId)
      const index = SLOW.indexOf(path.replace(/^test\/(.*)\.test\.ts$/, '$1'))
      const isLast = path.startsWith('test/compatibility/')
      return (index < 0 ? SLOW.length : index) + (isLast ? SLOW.length : 0)
    }
    const sorted = await super.sort(files)
    return sorted.toSorted((a, b) => place(a) - place(b))
  }
}
