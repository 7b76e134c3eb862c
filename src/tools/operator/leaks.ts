/** Keys without a time to live that must have one: restored, or persisted by hand. */
import type { Probe } from './probe.ts'
import { globEscape } from './glob.ts'
import { valuesOf, type Coverage, type FleetProbe } from './fleet-probe.ts'
import { lifetimesScript } from './inspection-scripts.ts'

export interface Leak {
  readonly master: string
  readonly key: string
  readonly kind: 'lease' | 'fence' | 'wait' | 'next' | 'tomb' | 'flag' | 'foreign'
  readonly harm: string
  readonly fix: string
}

export interface Leaks extends Coverage {
  readonly leaks: readonly Leak[]
  /** Some master has more keys than were looked at, or more leaks than were asked for. */
  readonly truncated: boolean
}

export interface LeakSearch {
  /** The most leaks to report of each master. */
  readonly limit: number
}

/** The most keys that are looked at on each master. */
const MAX_SCANNED = 1_000_000
const PAGE = 500
const DAY_MS = 86_400_000

export async function findLeaks(fleet: FleetProbe, search: LeakSearch): Promise<Leaks> {
  const answers = await fleet.each((probe) => leaksOn(probe, fleet.namespace, search))
  return {
    leaks: valuesOf(answers).flatMap(({ leaks }) => leaks),
    ...fleet.coverage(answers),
    truncated: valuesOf(answers).some(({ complete }) => !complete),
  }
}

async function leaksOn(
  probe: Probe,
  namespace: string,
  { limit }: LeakSearch,
): Promise<{ readonly leaks: readonly Leak[]; readonly complete: boolean }> {
  const leaks = new Map<string, Leak>()
  const pages = probe.scan(`${globEscape(namespace)}:*`, MAX_SCANNED)
  for (;;) {
    const page = await pages.next()
    if (page.done === true) return { leaks: [...leaks.values()], complete: page.value }
    for (const key of await immortal(probe, page.value)) {
      const leak = leakOf(probe.name, namespace, key)
      if (leak !== undefined) leaks.set(key, leak)
      if (leaks.size > limit) return { leaks: [...leaks.values()].slice(0, limit), complete: false }
    }
  }
}

async function immortal(probe: Probe, keys: readonly string[]): Promise<readonly string[]> {
  const found: string[] = []
  for (let start = 0; start < keys.length; start += PAGE) {
    const page = keys.slice(start, start + PAGE)
    const lifetimes = (await probe.run(lifetimesScript, page, [])) as readonly number[]
    found.push(...page.filter((_, index) => lifetimes[index] === -1))
  }
  return found
}

/** Undefined for the enrolment, the one key that lives as long as its master. */
function leakOf(master: string, namespace: string, key: string): Leak | undefined {
  const rest = key.slice(namespace.length + 1)
  if (rest === 'master') return undefined
  const [word = ''] = rest.split(':', 1)
  const kind = Object.hasOwn(KINDS, word) ? (word as Leak['kind']) : 'foreign'
  const { harm, fix } = KINDS[kind]
  const name = rest.slice(word.length + 1)
  const filled = (text: string): string =>
    text.replace(/NAME|KEY/g, (part) => (part === 'NAME' ? name : key))
  return { master, key, kind, harm: filled(harm), fix: filled(fix) }
}

const DELETE = "DEL 'KEY'"

/** NAME stands for the resource, KEY for the key. */
const KINDS: Readonly<Record<Leak['kind'], Pick<Leak, 'harm' | 'fix'>>> = {
  lease: {
    harm: 'this master refuses `NAME` until the key is deleted',
    fix: "bullmq-redlock release 'NAME' --force",
  },
  fence: {
    harm: 'only memory: the counter never expires',
    fix: `PEXPIRE 'KEY' ${DAY_MS}`,
  },
  wait: { harm: 'every release is announced, also when no client waits', fix: DELETE },
  next: { harm: 'this master reserves `NAME` for the clients that the key names', fix: DELETE },
  flag: { harm: 'only time: every call looks for waiters and tombstones', fix: DELETE },
  tomb: { harm: 'only memory: its token is used once', fix: DELETE },
  foreign: {
    harm: 'not written by this version of bullmq-redlock',
    fix: 'find out which program shares this namespace',
  },
}
