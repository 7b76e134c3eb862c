/** Who is measured, and what a load needs of them. */
import type { Adapter, Client, Held, Setup } from '../compare-safety/adapter.ts'
import { libraries, OURS } from '../compare-safety/libraries.ts'

export type Lock = Pick<Held, 'isHeld' | 'extend' | 'release'>

export interface LockClient extends Pick<Client, 'close'> {
  acquire(resource: string, ttlMs: number): Promise<Lock>
}

/** What the comparison of hazards asks of a library, without its questions about faults. */
export interface LockAdapter extends Pick<Adapter, 'versions'> {
  connect(setup: Setup): Promise<LockClient>
}

export interface Contender {
  readonly name: string
  readonly title: string
  /** `bound`: no lock, but what one could be at best. */
  readonly kind: 'ours' | 'peer' | 'bound'
}

export const RAW: Contender = { name: 'raw', title: 'raw SET NX from Node', kind: 'bound' }

/** In the order of the tables. */
export const contenders: readonly Contender[] = [
  ...libraries.map(({ name, title }): Contender => ({
    name,
    title,
    kind: name === OURS ? 'ours' : 'peer',
  })),
  RAW,
]

export const lockLibraries: readonly Contender[] = contenders.filter(({ kind }) => kind !== 'bound')

/** Ours as it is published, the others as they are compared for safety. */
export const adapters: Readonly<Record<string, () => Promise<{ readonly adapter: LockAdapter }>>> =
  {
    [OURS]: () => import('./contenders/bullmq-redlock.ts'),
    'redlock-4': () => import('../compare-safety/adapters/redlock-4.ts'),
    'redlock-5': () => import('../compare-safety/adapters/redlock-5.ts'),
    sesamecare: () => import('../compare-safety/adapters/sesamecare.ts'),
    'redlock-universal': () => import('../compare-safety/adapters/redlock-universal.ts'),
    'redis-semaphore': () => import('../compare-safety/adapters/redis-semaphore.ts'),
    raw: () => import('./contenders/raw.ts'),
  }
