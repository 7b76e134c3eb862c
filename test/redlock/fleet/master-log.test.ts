/** What is logged of masters: changes once, what repeats once a minute. */
import { expect, test } from 'vitest'
import { Log, loggedChannel } from '../../../src/log.ts'
import { Redlock, silentLogger, type Logger } from '../../../src/index.ts'
import { MasterLog } from '../../../src/redlock/fleet/master-log.ts'
import type { Silence } from '../../../src/redlock/fleet/voter.ts'
import type { Master } from '../../../src/redlock/wire/master.ts'
import { FakeClock } from '../../../src/testing/index.ts'
import { until, useFleet } from '../../fixtures.ts'

type Line = Readonly<Record<string, unknown>>

function lines(): { readonly all: Line[]; readonly logger: Logger } {
  const all: Line[] = []
  const add = (line: unknown): void => {
    all.push(line as Line)
  }
  return { all, logger: { ...silentLogger, info: add, warn: add, error: add } }
}

const voter = (name: string, silence?: Silence) => ({ master: { name } as Master, silence })
const REFUSED = 'connect ECONNREFUSED'
const away: Silence = { status: 'connecting', reason: REFUSED, detail: REFUSED }

/** A master that enters one state after the other. */
function entering(log: MasterLog): (silence: Silence | undefined) => void {
  const a = voter('a:1')
  return (silence) => {
    log.entered(Object.assign(a, { silence }))
  }
}

test('logs a state that repeats once a minute, with a count', async () => {
  const { all, logger } = lines()
  const clock = new FakeClock()
  const log = new MasterLog(loggedChannel(new Log(logger), undefined, []), clock)
  const enters = entering(log)
  for (let second = 0; second < 150; second++) {
    enters({ status: 'enrolling', reason: '', detail: 'again' })
    enters(away)
    await clock.advance(1_000)
  }
  const line = { event: 'master:connecting', master: 'a:1', detail: REFUSED }
  expect(all).toEqual([line, { ...line, times: 60 }, { ...line, times: 60 }])

  enters(undefined)
  enters(away)
  expect(all.slice(3)).toEqual([{ event: 'master:enrolled', master: 'a:1' }, line])
})

test('a new reason is told at once, and each of them once a minute', async () => {
  const { all, logger } = lines()
  const clock = new FakeClock()
  const log = new MasterLog(loggedChannel(new Log(logger), undefined, []), clock)
  const enters = entering(log)
  const closed: Silence = { status: 'connecting', reason: 'closed', detail: 'closed' }
  for (let second = 0; second < 60; second++) {
    enters(closed)
    enters(away)
    await clock.advance(1_000)
  }
  expect(all).toMatchObject([{ detail: 'closed' }, { detail: REFUSED }])
  enters(away)
  expect(all.slice(2)).toMatchObject([{ detail: REFUSED, times: 60 }])
})

test('masters that are quarantined at once share one line, without those that vote by now', async () => {
  const { all, logger } = lines()
  const clock = new FakeClock()
  const quarantined = (votesInMs: number): Silence => ({
    status: 'quarantined',
    reason: '',
    votesInMs,
  })
  const log = new MasterLog(loggedChannel(new Log(logger), undefined, []), clock)
  const [a, b, c] = ['a:1', 'b:2', 'c:3'].map((name) => voter(name, quarantined(1_000)))
  if (!a || !b || !c) throw new Error('There are three')
  for (const each of [a, b, c]) log.entered(each)
  a.silence = quarantined(900)
  b.silence = quarantined(901)
  c.silence = undefined
  await clock.advance(1_000)
  expect(all).toEqual([{ event: 'master:quarantined', masters: ['a:1', 'b:2'], votesInMs: 901 }])
  const again = voter('c:3', quarantined(1_000))
  log.entered(again)
  again.silence = undefined
  await clock.advance(1_000)
  expect(all).toHaveLength(1)
})

test('a master whose clock is not compared yet is no outage that ends', () => {
  const { all, logger } = lines()
  const log = new MasterLog(loggedChannel(new Log(logger), undefined, []), new FakeClock())
  log.entered(voter('a:1', { status: 'suspended', reason: '', votesInMs: 1 }))
  log.entered(voter('b:2'))
  log.allVote(2)
  expect(all).toEqual([
    { event: 'master:enrolled', master: 'a:1' },
    { event: 'master:enrolled', master: 'b:2' },
  ])
})

const fixture = useFleet({ masters: 3 })

test('a dead master is one line for each reason, for all its attempts', async () => {
  const { all, logger } = lines()
  const redlock = await fixture.redlock({ logger })
  const [first] = fixture.fleet.masters
  await first?.kill()
  const tried = (): boolean => redlock.status().masters[0]?.reason?.includes('REFUSED') === true
  await until('it has been tried again', tried)
  await new Promise((resolve) => setTimeout(resolve, 1_500))
  const gone = all.filter(({ event }) => event === 'master:connecting')
  expect(gone.map(({ detail }) => detail)).toEqual([
    'the connection was closed',
    expect.stringContaining('ECONNREFUSED'),
  ])
})

test('a hung master is one line, whoever notices it', async () => {
  const { all, logger } = lines()
  const redlock = await fixture.redlock({ logger, masterTimeoutMs: 100 })
  const [first] = fixture.fleet.masters
  await first?.freeze()
  // A question that is not answered, and then a new connection that is not served.
  await redlock.tryAcquire('r')
  const told = (): readonly object[] => all.filter(({ event }) => event === 'master:connecting')
  await until('it is told', () => told().length > 0)
  await new Promise((resolve) => setTimeout(resolve, 3_000))
  expect(told()).toMatchObject([{ detail: 'no data from the server for 1000 ms' }])
})

test('a fleet that was stated to be new is not told to wait', async () => {
  const { all, logger } = lines()
  await using redlock = new Redlock({
    ...{ masters: fixture.fleet.urls, namespace: `${fixture.namespace}-new`, logger },
  })
  await redlock.bootstrap({ newFleet: true })
  await new Promise((resolve) => setTimeout(resolve, 500))
  const told = all.map(({ event }) => event)
  expect(told.slice(told.indexOf('fleet:votes'))).not.toContain('master:quarantined')
})
