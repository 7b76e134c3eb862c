/**
 * The value at `key`; where there is none, the one that `make` returns, which is added. As
 * `Map.prototype.getOrInsertComputed`, which Node 20 lacks.
 */
export function getOrInsert<Key, Value>(
  map: { get(key: Key): Value | undefined; set(key: Key, value: Value): unknown },
  key: Key,
  make: () => Value,
): Value {
  const present = map.get(key)
  if (present !== undefined) return present
  const made = make()
  map.set(key, made)
  return made
}
