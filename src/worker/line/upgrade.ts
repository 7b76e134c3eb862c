/**
 * Takes over the places that release 0.1 has written. Its workers must have stopped: they would not
 * wake a job that sleeps as it does today. Done before the first job is added or fetched.
 */
import { keyScript, type ComposedScript } from '../bullmq/composed-script.ts'
import { lineScripts } from './line-scripts.ts'
import type { Place } from './place.ts'

/** KEYS  1 any · ARGV  3 another. Returns  how many of them exist */
const existScript = keyScript(
  'exist',
  `return redis.call('EXISTS', KEYS[1]) + redis.call('EXISTS', ARGV[3])`,
)

export interface UpgradeClient {
  scan(
    cursor: string,
    options: { readonly MATCH: string; readonly COUNT: number },
  ): Promise<readonly [string, readonly string[]]>
  del(...keys: string[]): Promise<number>
}

const KEYS_PER_PAGE = 1_000

/** @param run runs a script whose first key is given, with its own arguments. */
export async function upgradeLines(
  client: UpgradeClient,
  namespace: string,
  { prefix, queue }: Pick<Place, 'prefix' | 'queue'>,
  run: (script: ComposedScript, key: string, args: readonly string[]) => Promise<unknown>,
): Promise<void> {
  // Release 0.1 lists lines in which jobs sleep, and what its processes agree on.
  const signs = [`${namespace}:lines`, `redlock:terms:${prefix}:${queue}`] as const
  if ((await run(existScript, signs[0], [signs[1]])) === 0) return
  const [before, after] = [`${namespace}:{`, '}:line']
  let cursor = '0'
  do {
    const pattern = `${before.replace(/[[\]*?\\]/g, '\\$&')}*${after}`
    const [next, keys] = await client.scan(cursor, { MATCH: pattern, COUNT: KEYS_PER_PAGE })
    for (const line of keys) {
      const resource = line.slice(before.length, -after.length)
      await run(lineScripts().upgrade, line, [resource, `${before}${resource}}:parked`])
    }
    cursor = next
  } while (cursor !== '0')
  await client.del(...signs)
}
