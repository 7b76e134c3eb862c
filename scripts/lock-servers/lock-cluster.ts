/** Servers of a lock service on this machine, for tests, soaks and the demo. */
import type { ServiceProcess } from './service-process.ts'

export interface LockMember {
  readonly name: string
  readonly port: number
  /** Where the other members reach it. */
  readonly peerPorts: readonly number[]
  readonly process: ServiceProcess
}

export interface LockCluster extends AsyncDisposable {
  /** As `--locks` and `openLocks` take it. */
  readonly address: string
  readonly members: readonly LockMember[]
  /** Resolves when one is elected. */
  leader(): Promise<LockMember>
  /** What each member has of sessions and their nodes, and which nodes outlived their session. */
  sessions?(): Promise<readonly string[]>
  close(): Promise<void>
}

/** The port that others are told instead of a server's own: that of a proxy. */
export type Told = (port: number) => Promise<number>
