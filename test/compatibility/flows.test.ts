/** Parents and children whose resources are the same. */
import { WaitingChildrenError } from 'bullmq'
import { differs, same, useSides } from './differential.ts'
import { range } from './side.ts'

useSides()

same(
  'a flow of one customer: the children run, then their parent',
  async (side) => {
    const { job } = await side.flow(
      ['a', 9],
      range(1, 4).map((nr) => ['a', nr]),
    )
    side.worker(async (one) => {
      if (one.data.nr !== 9) return one.data.nr
      return Object.values(await one.getChildrenValues<number>()).reduce((a, b) => a + b, 0)
    })
    const events = await side.events()
    const result: unknown = await job.waitUntilFinished(events, 10_000)
    return { ran: side.ran, last: side.order.at(-1), result, overlaps: side.overlaps }
  },
  { ran: [1, 2, 3, 4, 9], last: 9, result: 10, overlaps: 0 },
)

same(
  'a flow of three levels and two customers runs from the leaves to the root',
  async (side) => {
    const flows = side.flows()
    const queueName = side.queueName
    const node = (customer: string, nr: number, children: object[] = []) => ({
      name: 'n',
      queueName,
      data: { customer, nr },
      ...(children.length > 0 && { children: children as never[] }),
    })
    await flows.addBulk([node('a', 3, [node('b', 2, [node('a', 1)])])])
    side.worker()
    return side.orderAfter(3)
  },
  { order: [1, 2, 3] },
)

same(
  'a flow’s parent that is added again by its jobId holds up nothing',
  async (side) => {
    await side.flow(['a', 9], [['a', 1]], { ofParent: { jobId: 'p' } })
    await side.add('a', [9], { jobId: 'p' })
    await side.add('a', [11])
    side.worker()
    await side.ended(3)
    return { ran: side.ran }
  },
  { ran: [1, 9, 11] },
)

same(
  'job.retry of a parent that has waited for its children puts it behind those that wait',
  async (side) => {
    const gate = side.gate()
    let fails = true
    side.worker(async (job, { token }) => {
      if (job.data.nr === 2) await gate.passed
      if (job.data.nr !== 9) return
      if (job.data.step === undefined) {
        const parent = { id: job.id ?? '', queue: job.queueQualifiedName }
        await side.own.add('child', { customer: 'a', nr: 1 }, { parent })
        await job.updateData({ ...job.data, step: 'wait' })
        if (await job.moveToWaitingChildren(token)) throw new WaitingChildrenError()
      }
      if (fails) throw new Error('on purpose')
    })
    const [parent] = await side.add('a', [9])
    await side.ended(3)
    await side.add('a', [2, 3])
    await side.started(2)
    fails = false
    await parent?.retry()
    gate.open()
    return side.orderAfter(6)
  },
  { order: [9, 1, 9, 2, 3, 9] },
)

same(
  'moveToWaitingChildren with children of the same customer: they run, then the parent continues',
  async (side) => {
    side.worker(async (job, { token }) => {
      if (job.data.nr !== 9) return job.data.nr
      if (job.data.step === undefined) {
        for (const nr of [1, 2]) {
          const parent = { id: job.id ?? '', queue: job.queueQualifiedName }
          await side.own.add('child', { customer: 'a', nr }, { parent })
        }
        await job.updateData({ ...job.data, step: 'wait' })
        if (await job.moveToWaitingChildren(token)) throw new WaitingChildrenError()
      }
      return Object.values(await job.getChildrenValues<number>()).reduce((a, b) => a + b, 0)
    })
    const events = await side.events()
    const [job] = await side.add('a', [9])
    const result = await job?.waitUntilFinished(events, 10_000)
    return { order: side.order, result }
  },
  { order: [9, 1, 2, 9], result: 3 },
)

same(
  'moveToWaitingChildren: what was added behind the parent runs after it, or between',
  async (side) => {
    side.worker(async (job, { token }) => {
      if (job.data.nr === 9 && job.data.step === undefined) {
        const parent = { id: job.id ?? '', queue: job.queueQualifiedName }
        await side.own.add('child', { customer: 'a', nr: 1 }, { parent })
        await job.updateData({ ...job.data, step: 'wait' })
        if (await job.moveToWaitingChildren(token)) throw new WaitingChildrenError()
      }
    })
    await side.add('a', [9])
    await side.add('a', [20, 21])
    await side.ended(5)
    return { ran: side.ran, overlaps: side.overlaps }
  },
  { ran: [1, 9, 9, 20, 21], overlaps: 0 },
)

same(
  'moveToWaitingChildren without pending children continues at once',
  async (side) => {
    side.worker(async (job, { token }) => job.moveToWaitingChildren(token))
    const events = await side.events()
    const [job] = await side.add('a', [1])
    return { moved: await job?.waitUntilFinished(events, 10_000), order: side.order }
  },
  { moved: false, order: [1] },
)

same(
  'failParentOnFailure: the parent of a failed child fails, and the next job starts',
  async (side) => {
    side.worker(({ data }) => {
      if (data.nr === 1) throw new Error('on purpose')
    })
    const ofChildren = { failParentOnFailure: true }
    const { job } = await side.flow(['a', 9], [['a', 1]], { ofChildren })
    await side.until('the parent fails', async () => (await job.getState()) === 'failed')
    await side.add('a', [2])
    return side.orderAfter(2)
  },
  { order: [1, 2] },
)

same(
  'ignoreDependencyOnFailure, continueParentOnFailure and removeDependencyOnFailure let the parent run',
  async (side) => {
    const options = [
      { ignoreDependencyOnFailure: true },
      { continueParentOnFailure: true },
      { removeDependencyOnFailure: true },
    ]
    const failures: unknown[] = []
    side.worker(async (job) => {
      if (job.data.nr < 9) throw new Error('on purpose')
      const ignored = Object.values(await job.getIgnoredChildrenFailures())
      // eslint-disable-next-line @typescript-eslint/no-deprecated -- It is public all the same.
      const failed = Object.values(await job.getFailedChildrenValues())
      failures[job.data.nr - 10] = { ignored, failed }
    })
    for (const [index, ofChildren] of options.entries()) {
      await side.flow(['a', 10 + index], [['a', index]], { ofChildren })
    }
    await side.ended(6)
    return { ran: side.ran, failures }
  },
  {
    ran: [0, 1, 2, 10, 11, 12],
    failures: [
      { ignored: ['on purpose'], failed: ['on purpose'] },
      { ignored: ['on purpose'], failed: ['on purpose'] },
      { ignored: [], failed: [] },
    ],
  },
)

same(
  'getFlow, getDependencies and getDependenciesCount see a child that waits in line as unprocessed',
  async (side) => {
    const gate = side.gate()
    side.worker(
      async ({ data }) => {
        if (data.nr === 2) await gate.passed
      },
      { concurrency: 1 },
    )
    const { job } = await side.flow(
      ['a', 9],
      [1, 2, 3].map((nr) => ['a', nr]),
    )
    await side.started(2)
    const counts = await job.getDependenciesCount()
    const { unprocessed = [] } = await job.getDependencies()
    const flow = await side.flows().getFlow({ queueName: side.queueName, id: job.id ?? '' })
    const queue = side.queue()
    const pending = await queue.getDependencies(job.id ?? '', 'pending', 0, -1)
    const parents = (await queue.getWaitingChildren()).map(({ data }) => data.nr)
    const parentsCount = await queue.getWaitingChildrenCount()
    const isParent = await job.isWaitingChildren()
    gate.open()
    await side.ended(4)
    return {
      counts: { processed: counts.processed, unprocessed: counts.unprocessed },
      unprocessed: unprocessed.length,
      children: flow.children?.length,
      pending: pending.total,
      parents,
      parentsCount,
      isParent,
    }
  },
  {
    counts: { processed: 1, unprocessed: 2 },
    unprocessed: 2,
    children: 3,
    pending: 2,
    parents: [9],
    parentsCount: 1,
    isParent: true,
  },
)

same(
  'removeChildDependency frees the parent, and both run',
  async (side) => {
    const { children = [] } = await side.flow(['a', 9], [['a', 1]], { ofChildren: { delay: 300 } })
    const child = await side.own.getJob(children[0]?.job.id ?? '')
    const removed = await child?.removeChildDependency()
    side.worker()
    await side.ended(2)
    return { removed, order: side.order }
  },
  { removed: true, order: [9, 1] },
)

differs(
  'a job of a scheduler that waits for children, of which the last is removed, runs',
  async (side) => {
    const queue = side.queue()
    side.worker(async (job, { token }) => {
      if (job.data.step !== undefined) return
      const parent = { id: job.id ?? '', queue: job.queueQualifiedName }
      await queue.add('child', { customer: 'a', nr: 1 }, { parent, delay: 3_600_000 })
      await job.updateData({ ...job.data, step: 'wait' })
      if (await job.moveToWaitingChildren(token)) throw new WaitingChildrenError()
    })
    const template = { data: { customer: 'b', nr: 9 } }
    const { id = '' } = await queue.upsertJobScheduler('s', { every: 3_600_000 }, template)
    const stateIs = async (state: string): Promise<boolean> =>
      (await queue.getJobState(id)) === state
    await side.until('it waits', () => stateIs('waiting-children'))
    const delayed = await queue.getDelayed()
    await delayed.find(({ name }) => name === 'child')?.remove()
    await side.until('it is done', () => stateIs('completed'), 1_000).catch(() => undefined)
    return { state: await queue.getJobState(id) }
  },
  { bullmq: { state: 'waiting-children' }, ours: { state: 'completed' } },
)
