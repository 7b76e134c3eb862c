/** How many a Redis Cluster has. */
export const SLOTS = 16_384

/** The slot of a key. As in Redis, only the first part in braces counts, where there is one. */
export function slotOf(key: string): number {
  let crc = 0
  for (const byte of Buffer.from(/^[^{]*\{([^}]+)\}/.exec(key)?.[1] ?? key)) {
    crc ^= byte << 8
    for (let bit = 0; bit < 8; bit++) crc = (crc & 0x8000) === 0 ? crc << 1 : (crc << 1) ^ 0x1021
  }
  return crc & (SLOTS - 1)
}
