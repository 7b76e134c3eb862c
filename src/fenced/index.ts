/** `bullmq-redlock/fenced`: writes that a store refuses when their fencing token is stale. */
export { StaleTokenError } from '../lock-errors.ts'
export { fencedPut, type FencedObjects, type StoredObject } from './objects.ts'
export { fencedRedis, type FencedRedisClient, type RedisCommand } from './redis.ts'
export {
  FencedTable,
  type FencedClient,
  type FencedTableOptions,
  type Row,
  type Statement,
} from './sql.ts'
