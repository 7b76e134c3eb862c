import pRetry from 'p-retry'

/** The service has just come, or comes back: on a busy machine its first answers are late. */
export async function servicesReady(locks: { ready(): Promise<unknown> }): Promise<void> {
  await pRetry(() => locks.ready(), { retries: 60, minTimeout: 200, maxTimeout: 1_000 })
}
