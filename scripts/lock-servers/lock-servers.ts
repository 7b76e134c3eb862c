/** The lock services besides Redis whose servers can be started here. */
import { noEtcd, startEtcd, DEFAULT_TIMING } from './etcd-server.ts'
import type { LockCluster, Told } from './lock-cluster.ts'
import { noPostgres, startPostgres } from './postgres-server.ts'
import { noZooKeeper, startZooKeeper } from './zookeeper-server.ts'

export const KINDS = ['etcd', 'zookeeper', 'postgres'] as const
export type Kind = (typeof KINDS)[number]

interface LockServers {
  /** What to install; undefined where the server is there. */
  readonly missing: string | undefined
  /** PostgreSQL always has one member. */
  start(size: 1 | 3, told?: Told): Promise<LockCluster>
}

export const LOCK_SERVERS: Readonly<Record<Kind, LockServers>> = {
  etcd: {
    missing: noEtcd ? installs('etcd', 'etcd-server') : undefined,
    start: (size, told) =>
      startEtcd(size, { ...(size > 1 && DEFAULT_TIMING), ...(told !== undefined && { told }) }),
  },
  zookeeper: {
    missing: noZooKeeper ? installs('ZooKeeper', 'zookeeper') : undefined,
    start: (size, told) => startZooKeeper(size, told),
  },
  postgres: {
    missing: noPostgres ? installs('PostgreSQL', 'postgresql') : undefined,
    start: (_size, told) => startPostgres([], told),
  },
}

function installs(name: string, debianPackage: string): string {
  return `${name} is not installed. On Debian or Ubuntu: apt-get install ${debianPackage}`
}
