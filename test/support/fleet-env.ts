/** The environment that names a fleet. On a busy machine a healthy server may answer late. */
export function fleetEnv(
  urls: readonly string[],
  namespace: string,
  queueUrl?: string,
): NodeJS.ProcessEnv {
  return {
    BULLMQ_REDLOCK_MASTERS: urls.join(','),
    BULLMQ_REDLOCK_NAMESPACE: namespace,
    BULLMQ_REDLOCK_TIMEOUT_MS: '5000',
    ...(queueUrl !== undefined && { BULLMQ_REDLOCK_QUEUE: queueUrl }),
  }
}
