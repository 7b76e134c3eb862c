import { readdirSync } from 'node:fs'
import { join } from 'node:path'

/** The file to which a server appends what it writes now; undefined where it keeps none. */
export async function aofOf(redis: {
  config(get: 'GET', name: 'dir'): Promise<unknown>
}): Promise<string | undefined> {
  const [, dir = ''] = (await redis.config('GET', 'dir')) as readonly string[]
  const directory = join(dir, 'appendonlydir')
  const name = readdirSync(directory).find((file) => file.endsWith('.incr.aof'))
  return name === undefined ? undefined : join(directory, name)
}
