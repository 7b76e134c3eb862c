import { describe } from 'vitest'
import { LOCK_SERVERS, type Kind } from '../../scripts/lock-servers/lock-servers.ts'

/** Tests on the servers of a lock service. Where they are not installed it says what to install. */
export function describeService(kind: Kind, name: string, tests: () => void): void {
  const { missing } = LOCK_SERVERS[kind]
  if (missing !== undefined) console.warn(`Skipped: ${missing}`)
  describe.skipIf(missing !== undefined)(name, tests)
}
