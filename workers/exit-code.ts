/** How a worker process says how it ended. Anything else is a crash. */
export const EXIT = {
  done: 0,
  cannotGoOn: 1,
  wrongUsage: 2,
  /** The queue is empty, but a job failed or the result is wrong: no reason to start it again. */
  drainedWithFailures: 3,
  interrupted: 130,
} as const
