import '../../telemetry/join.ts'
/** `bullmq-redlock/zookeeper`: leases on ephemeral nodes of ZooKeeper 3.5 and newer. */
export { ZooKeeperLocks, type ZooKeeperLocksOptions } from './zookeeper-locks.ts'
