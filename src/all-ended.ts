/**
 * As `Promise.all`, and rejects only when all have ended: what the caller does next meets none of
 * them.
 */
export async function allEnded<Value>(
  promises: readonly Promise<Value>[],
): Promise<Awaited<Value>[]> {
  // rule: rejected-call-does-nothing-later
  await Promise.allSettled(promises)
  return Promise.all(promises)
}
