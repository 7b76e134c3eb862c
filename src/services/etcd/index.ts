import '../../telemetry/join.ts'
/** `bullmq-redlock/etcd`: leases on keys of etcd 3.4 and newer. */
export { EtcdLocks, type EtcdLocksOptions } from './etcd-locks.ts'
export type { EtcdTls } from './gateway.ts'
