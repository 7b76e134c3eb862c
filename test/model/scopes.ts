import type { Scope } from './protocol.ts'
import type { Removable } from './rules.ts'

export interface NamedScope {
  readonly name: string
  /** Small enough for every run of the tests. */
  readonly small: boolean
  readonly scope: Scope
}

const NOTHING: ReadonlySet<Removable> = new Set()

const BASE: Scope = {
  masters: 3,
  extensions: 0,
  losses: 0,
  duplicates: 0,
  proposals: 1,
  clock: false,
  wrongClocks: false,
  sorted: true,
  without: NOTHING,
}

const named = (name: string, small: boolean, scope: Partial<Scope>): NamedScope => ({
  name,
  small,
  scope: { ...BASE, ...scope },
})

/** Always two attempts on one resource. Losses come with proposals that follow a clock. */
export const scopes: readonly NamedScope[] = [
  named('3 masters', true, { proposals: 3 }),
  named('3 masters, one acquire delivered twice', true, { duplicates: 1 }),
  named('3 masters, extend and heal', true, { extensions: 1 }),
  named('3 masters, extend and heal, one memory loss', true, { extensions: 1, losses: 1 }),
  named('3 masters with a clock, two extensions, one memory loss', true, {
    extensions: 2,
    losses: 1,
    clock: true,
  }),
  named('3 masters, two extensions', true, { extensions: 2 }),
  named('3 masters with a clock, one extension, one memory loss', true, {
    extensions: 1,
    losses: 1,
    clock: true,
  }),
  named('3 masters with a clock, one restart with a wrong clock', true, {
    losses: 1,
    clock: true,
    wrongClocks: true,
  }),
  named('3 masters, two extensions, two memory losses', false, { extensions: 2, losses: 2 }),
  named('3 masters, two acquires delivered twice', false, { duplicates: 2, proposals: 2 }),
  named('5 masters', false, { masters: 5, proposals: 2 }),
  named('5 masters, one memory loss', false, { masters: 5, losses: 1 }),
  named('5 masters, extend and heal', false, { masters: 5, extensions: 1 }),
  named('5 masters with a clock, one extension, one memory loss', false, {
    masters: 5,
    extensions: 1,
    losses: 1,
    clock: true,
  }),
]

/** The smallest scope of those listed in which the loss of a rule can show. */
export function scopesWithout(rule: Removable): readonly NamedScope[] {
  return scopes
    .filter(({ small }) => small)
    .map((each) => ({ ...each, scope: { ...each.scope, without: new Set([rule]) } }))
}
