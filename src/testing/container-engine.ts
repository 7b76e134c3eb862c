import type * as Testcontainers from 'testcontainers'

const ENGINE_LIMIT_MS = 10_000

export type EngineAnswer =
  | { readonly status: 'ready' }
  /** Why no container can be started, in a form that can follow a colon. */
  | { readonly status: 'absent'; readonly reason: string }

/** Whether a Docker engine answers, wherever testcontainers looks for one. */
export async function findContainerEngine(): Promise<EngineAnswer> {
  let library: typeof Testcontainers
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

/** Loaded only when containers are asked for: the package does not depend on it. */
export async function loadTestcontainers(): Promise<typeof Testcontainers> {
  try {
    return await import('testcontainers')
  } catch (cause) {
    throw new Error('the package testcontainers is not installed: npm install -D testcontainers', {
      cause,
    })
  }
}
