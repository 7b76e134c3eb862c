/** Who is measured, and what a load needs of them. */
import type { Contender } from '../beside.ts'
import type { Adapter, Client, Held, Setup } from '../peers/adapter.ts'
import { libraries, loadAdapter, OURS } from '../peers/libraries.ts'

export type Lock = Pick<Held, 'isHeld' | 'release'>

export interface LockClient extends Pick<Client, 'close'> {
  acquire(resource: string, ttlMs: number): Promise<Lock>
}

/** What the comparison of hazards asks of a library, without its questions about faults. */
export interface LockAdapter extends Pick<Adapter, 'versions'> {
  connect(setup: Setup): Promise<LockClient>
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

export async function adapterOf(name: string): Promise<LockAdapter> {
  return name === RAW.name ? (await import('./raw.ts')).adapter : loadAdapter(name)
}
