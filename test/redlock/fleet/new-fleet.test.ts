/** Only a fleet that no client has used starts without its quarantine. */
import { expect, test } from 'vitest'
import { NotNewFleetError, Redlock, silentLogger } from '../../../src/index.ts'
import { startFleet, type Fleet } from '../../../src/testing/index.ts'
import { useClosers } from '../../fixtures.ts'

const { closing } = useClosers()

const fleet = async (): Promise<Fleet> => closing(await startFleet({ masters: 3, queue: false }))

const client = ({ urls }: Fleet): Redlock =>
  closing(new Redlock({ masters: urls, logger: silentLogger }))

test('the caller must say that the fleet is new', async () => {
  const redlock = client(await fleet())
  const unsaid = (redlock.bootstrap as () => Promise<unknown>).call(redlock)
  await expect(unsaid).rejects.toThrow('Expected `newFleet` to be true')
})

test('a new fleet votes at once, and another client finds nothing to do', async () => {
  const started = await fleet()
  expect(await client(started).bootstrap({ newFleet: true })).toHaveLength(3)
  expect(await client(started).bootstrap({ newFleet: true })).toHaveLength(3)
})

test('masters that restarted empty are not a new fleet, also with `newFleet`', async () => {
  const started = await fleet()
  const first = client(started)
  await first.bootstrap({ newFleet: true })
  await using lease = await first.acquire('r', { leaseMs: 20_000 })
  await first.close()
  expect(lease.resource).toBe('r')
  const [a, b] = started.masters
  await Promise.all([a?.restart(), b?.restart()])

  const error: unknown = await client(started)
    .bootstrap({ newFleet: true })
    .catch((why: unknown) => why)
  expect(error).toBeInstanceOf(NotNewFleetError)
  expect(String(error)).toContain(new URL(started.urls[2] ?? '').host)
  expect(String(error)).toContain('Wait one `maxLeaseMs`')
})

test('a fleet with an unreachable master is not certainly new', async () => {
  const started = await fleet()
  await started.masters[2]?.kill()
  const refused = client(started).bootstrap({ newFleet: true })
  await expect(refused).rejects.toThrow(NotNewFleetError)
})

test('an operator who confirms it ends the quarantine of a fleet that clients have enrolled', async () => {
  const started = await fleet()
  await client(started).ready()
  const second = client(started)
  await expect(second.bootstrap({ newFleet: true })).rejects.toThrow(NotNewFleetError)
  expect(await second.bootstrap({ newFleet: true, confirmed: true })).toHaveLength(3)
})
