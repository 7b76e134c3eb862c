/**
 * The hazards that `npm run compare:safety` runs against published libraries, here against this
 * project alone.
 */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { OURS } from '../../bench/peers/libraries.ts'
import { openLibrary } from '../../bench/safety/bench.ts'
import { hazards } from '../../bench/safety/hazards.ts'
import { compileShim } from '../faults/shimmed-clock.ts'
import { assertNoLeaks } from '../support/leaks.ts'
import { useBystander } from '../support/undisturbed.ts'

assertNoLeaks()

const answer = await compileShim()
if (answer.status === 'absent') console.log(`Clocks are not tested here: ${answer.reason}`)
const clocks = answer.status === 'ready' ? answer.shim : undefined
let tested: Awaited<ReturnType<typeof openLibrary>>
beforeAll(async () => {
  tested = await openLibrary(OURS, clocks)
})
afterAll(async () => {
  await tested[Symbol.asyncDispose]()
  clocks?.remove()
})
/** A holder learns of its loss by a timer. */
const undisturbed = useBystander()

it.each(hazards.map((hazard) => [hazard.title, hazard] as const))('%s', (_, hazard) =>
  undisturbed(async () => {
    expect(await tested.meet(hazard)).not.toMatchObject({ verdict: 'FAIL' })
  }),
)
