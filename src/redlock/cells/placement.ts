/**
 * Which cell a resource lives in: rendezvous hashing. Every cell draws a number for the resource
 * and the highest wins, so that a cell that comes takes its share from all others, and one that
 * goes leaves its share to all others. Pure.
 */
import { createHash } from 'node:crypto'

/**
 * What is hashed of a name: what stands in its first `{…}`, as in Redis Cluster, so that resources
 * can be kept together; else the name without the number of a slot, so that a slot lives with its
 * resource.
 */
export function placementKey(resource: string): string {
  const opened = resource.indexOf('{')
  const closed = resource.indexOf('}', opened + 1)
  if (opened === -1 || closed <= opened + 1) return resource.replace(/#\d+$/, '')
  return resource.slice(opened + 1, closed)
}

export function cellOf(resource: string, cells: readonly string[]): string {
  const key = placementKey(resource)
  let best = ''
  let highest = ''
  for (const cell of cells) {
    const drawn = createHash('sha1').update(`${cell}\0${key}`).digest('hex')
    // Equal draws are as good as impossible; the name would decide.
    if (best === '' || drawn > highest || (drawn === highest && cell > best)) {
      best = cell
      highest = drawn
    }
  }
  return best
}
