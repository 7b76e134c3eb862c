import type { Scope } from './protocol.ts'

const scope = (options: Partial<Scope>): Scope => ({
  ...{ masters: 3, extensions: 0, losses: 0, proposals: 1, clock: false },
  ...options,
})

/** Always two attempts on one resource. Losses come with proposals that follow a clock. */
export const scopes: Readonly<Record<string, Scope>> = {
  '3 masters': scope({ proposals: 3 }),
  '3 masters, extend and heal': scope({ extensions: 1 }),
  '3 masters, extend and heal, one memory loss': scope({ extensions: 1, losses: 1 }),
  '3 masters, two extensions': scope({ extensions: 2 }),
  '3 masters with a clock, one extension, one memory loss': scope({
    ...{ extensions: 1, losses: 1, clock: true },
  }),
  '3 masters with a clock, two extensions, one memory loss': scope({
    ...{ extensions: 2, losses: 1, clock: true },
  }),
  '5 masters': scope({ masters: 5, proposals: 2 }),
}
