/** Keys of this package without a time to live: a restored backup, or PERSIST, leaves them. */
import { commandLine } from '../../command-line.ts'
import { findingsOf, type Finding } from '../../services/finding.ts'
import type { FleetProbe } from './fleet-probe.ts'
import { globEscape } from './glob.ts'
import type { LiveLeases } from './live-leases.ts'
import type { Probe } from './probe.ts'

/** The most keys that are looked at on each master. */
const MAX_SCANNED = 100_000
/** The most keys that are named of each master. */
const MAX_NAMED = 5
const FIX =
  '`bullmq-redlock release NAME --yes` for a lease, `PEXPIRE KEY 86400000` for a fence, ' +
  '`DEL KEY` for the others'

export async function checkLeaks(fleet: FleetProbe): Promise<readonly Finding[]> {
  const answers = await fleet.each((probe) => immortalKeys(probe, fleet.namespace))
  return answers.flatMap((answer) =>
    findingsOf(answer.master, (report) => {
      if (answer.ok) {
        const keys = answer.value
        if (keys.length === 0) return
        const named = keys.slice(0, MAX_NAMED).join(', ')
        const more = keys.length > MAX_NAMED ? `, and ${keys.length - MAX_NAMED} more` : ''
        report('warning', 'no-expiry', `keys that never expire: ${named}${more}`, FIX)
      } else if (answer.problem.startsWith('NOPERM')) {
        const fact = `keys that never expire were not looked for: ${answer.problem}`
        report('note', 'no-scan', fact, 'give this user the rights to SCAN and PTTL')
      }
    }),
  )
}

/** Of the leases that were looked at. */
export function checkLeases({ leases }: LiveLeases): readonly Finding[] {
  return findingsOf('fleet', (report) => {
    for (const { resource, holder } of leases.filter(({ freeInMs }) => freeInMs < 0)) {
      const fact = `the lease of ${holder} on \`${resource}\` never ends`
      report('warning', 'no-expiry', fact, commandLine`release ${resource} --yes`)
    }
  })
}

/** All but the enrolment, the one key that lives as long as its master. */
async function immortalKeys(probe: Probe, namespace: string): Promise<readonly string[]> {
  const own = /^(?:(?:lease|fence|wait|next|tomb):|flag$)/
  const found = new Set<string>()
  await probe.scan(`${globEscape(namespace)}:*`, MAX_SCANNED, async (page) => {
    const keys = page.filter((key) => own.test(key.slice(namespace.length + 1)))
    const values = await probe.values(keys)
    for (const [index, key] of keys.entries()) if (values[index]?.[1] === -1) found.add(key)
  })
  return [...found].sort()
}
