import { loadTestcontainers } from './load-testcontainers.ts'

const ENGINE_LIMIT_MS = 10_000

export type EngineAnswer =
  | { readonly status: 'ready' }
  /** Why no container can be started, in a form that can follow a colon. */
  | { readonly status: 'absent'; readonly reason: string }

/** Whether a Docker engine answers, wherever testcontainers looks for one. */
export async function findContainerEngine(): Promise<EngineAnswer> {
  let library: Awaited<ReturnType<typeof loadTestcontainers>>
  try {
    library = await loadTestcontainers()
  } catch (error) {
    return { status: 'absent', reason: (error as Error).message }
  }
  let timer: NodeJS.Timeout | undefined
  const limit = new Promise<EngineAnswer>((resolve) => {
    const reason = `the Docker engine did not answer within ${ENGINE_LIMIT_MS} ms`
    timer = setTimeout(resolve, ENGINE_LIMIT_MS, { status: 'absent', reason })
  })
  const answer = library.getContainerRuntimeClient().then(
    (): EngineAnswer => ({ status: 'ready' }),
    (): EngineAnswer => ({ status: 'absent', reason: 'no Docker engine answers' }),
  )
  try {
    return await Promise.race([answer, limit])
  } finally {
    clearTimeout(timer)
  }
}
