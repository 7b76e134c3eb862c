/** What Spin is asked about the models in `spec/`. */

type Model = 'quorum' | 'line'

/** A model, with the `-D` of what may happen in it. */
export interface Scope {
  readonly model: Model
  readonly defines: readonly string[]
}

/** Small enough for the tests, or for `npm run spec` alone. */
export interface Checked extends Scope {
  readonly isSmall: boolean
}

const quorum = (...defines: readonly string[]): Scope => ({ model: 'quorum', defines })
const line = (...defines: readonly string[]): Scope => ({ model: 'line', defines })

const ARBITRARY = quorum('ANY_CLOCKS', 'PROPOSALS=2', 'HAND_OVERS')
const ARBITRARY_EXTENDED = quorum('ANY_CLOCKS', 'EXTENSIONS=1')
const RELEASED = quorum('RELEASES', 'HAND_OVERS')
const LOST = quorum('LOSSES=1', 'EXTENSIONS=1')
const WRONG = quorum('LOSSES=1', 'EXTENSIONS=1', 'WRONG_CLOCK')
const WRONG_AT_START = quorum('LOSSES=1', 'WRONG_CLOCK')
const IN_ORDER = line('CRASHES=1', 'REMOVALS=1')
const PRIORITIES = line('PRIORITIES', 'CRASHES=1', 'REMOVALS=1')
const DELETIONS = line('PRIORITIES', 'CRASHES=1', 'DELETIONS=1')

const TWO_SLOTS = line('SLOTS=2', 'CRASHES=1', 'REMOVALS=1')
const small = [ARBITRARY, RELEASED, IN_ORDER, PRIORITIES, DELETIONS, TWO_SLOTS]

export const scopes: readonly Checked[] = [
  ...small.map((scope) => ({ ...scope, isSmall: true })),
  ...[ARBITRARY_EXTENDED, LOST, WRONG, quorum('RELEASES', 'LOSSES=1')].map((scope) => ({
    ...scope,
    isSmall: false,
  })),
]

/** A rule, as the source names it, and the property that does not hold without it. */
export interface Removal {
  readonly rule: string
  readonly scope: Scope
  readonly breaks: string
}

const removal = (rule: string, scope: Scope, breaks: string): Removal => ({ rule, scope, breaks })
const TWICE_LOST = quorum('LOSSES=1', 'EXTENSIONS=2')
const TWICE_ARBITRARY = quorum('ANY_CLOCKS', 'EXTENSIONS=2')

export const removals: readonly Removal[] = [
  removal('quorum-is-a-majority', ARBITRARY, 'unique_tokens'),
  removal('fresh-token-per-attempt', RELEASED, 'increasing_tokens'),
  removal('held-resource-is-not-granted', LOST, 'exclusion'),
  removal('counter-grows-with-every-grant', ARBITRARY, 'unique_tokens'),
  removal('a-quorum-has-exactly-the-token', ARBITRARY, 'unique_tokens'),
  removal('confirm-only-my-key', ARBITRARY, 'unique_tokens'),
  removal('confirm-counts-the-exact-token', ARBITRARY, 'unique_tokens'),
  removal('trust-from-before-the-first-command', quorum('LOSSES=1'), 'exclusion'),
  removal('drift-margin', LOST, 'exclusion'),
  removal('as-many-hand-overs-as-tokens', ARBITRARY, 'unique_tokens'),
  removal('handed-over-lease-is-no-longer', RELEASED, 'keys'),
  removal('extend-only-without-a-later-grant', TWICE_ARBITRARY, 'continuity'),
  removal('extend-creates-no-key', LOST, 'exclusion'),
  removal('heal-only-without-a-later-grant', TWICE_ARBITRARY, 'continuity'),
  removal('new-run-id-is-quarantined', quorum('LOSSES=1'), 'increasing_tokens'),
  removal('quarantine-on-a-monotonic-clock', WRONG_AT_START, 'increasing_tokens'),
  removal('healed-key-does-not-extend', TWICE_LOST, 'exclusion'),
  removal('master-out-of-line-grants-nothing', WRONG_AT_START, 'exclusion'),
  removal('master-out-of-line-extends-nothing', WRONG, 'exclusion'),
  removal('release-only-my-key', RELEASED, 'keys'),
  removal('release-on-every-master', RELEASED, 'nothing_left'),
  removal('abandoned-token-is-refused', RELEASED, 'nothing_left'),
  removal('as-many-heads-as-slots', IN_ORDER, 'in_turn'),
  removal('turn-only-at-the-head', IN_ORDER, 'in_turn'),
  removal('fetched-job-is-at-the-head', PRIORITIES, 'in_turn'),
  removal('woken-at-the-head-of-all-lines', IN_ORDER, 'no_start_in_vain'),
  removal('job-that-leaves-wakes-the-next', IN_ORDER, 'none_forgotten'),
  removal('removed-job-wakes-the-next', IN_ORDER, 'none_forgotten'),
  removal('dead-places-are-dropped', DELETIONS, 'none_forgotten'),
]

/** The name of a rule in a model. */
export function nameInModel(rule: string): string {
  return rule.toUpperCase().replaceAll('-', '_')
}
