/**
 * Which server may vote, as its connection comes and goes. A real server cannot be held at a step.
 */
import { describe, expect, test } from 'vitest'
import { Enrolment } from '../../../src/redlock/wire/enrolment.ts'
import type { Refusal } from '../../../src/redlock/wire/master.ts'
import type { ServerFacts } from '../../../src/redlock/wire/server-facts.ts'
import { FakeClock } from '../../../src/testing/index.ts'

const FACTS = { runId: 'run-1' } as ServerFacts
const REFUSED: Refusal = {
  status: 'refused',
  problem: 'a replica',
  fix: 'use a master',
  fault: 'server',
}

/** An enrolment whose server answers when the test says so. */
class Held {
  readonly clock = new FakeClock()
  refusal: Refusal | undefined
  readonly answers: (() => void)[] = []
  readonly enrolment = new Enrolment({
    clock: this.clock,
    readFacts: () =>
      new Promise((resolve) => {
        this.answers.push(() => {
          resolve(FACTS)
        })
      }),
    admit: () => Promise.resolve(this.refusal),
    loadScripts: () => Promise.resolve(),
    onState: () => undefined,
  })

  get status(): string {
    return this.enrolment.state.status
  }

  /** The server answers what it was asked first and has not answered. */
  async answer(): Promise<void> {
    this.answers.shift()?.()
    await this.clock.advance(0)
  }

  async enrolled(): Promise<this> {
    this.enrolment.connected()
    await this.answer()
    expect(this.status).toBe('enrolled')
    return this
  }
}

describe('an answer', () => {
  test('from before the connection broke enrols no server', async () => {
    const held = new Held()
    held.enrolment.connected()
    held.enrolment.disconnected('broken')
    await held.answer()
    expect(held.status).toBe('connecting')
    expect(held.enrolment.runId).toBe('')
  })

  test('from before a reconnection does not count', async () => {
    const held = new Held()
    held.enrolment.connected()
    held.enrolment.disconnected('broken')
    held.enrolment.connected()
    await held.answer()
    expect(held.status).toBe('enrolling')
    await held.answer()
    expect(held.enrolment.runId).toBe('run-1')
  })

  test('after it was closed changes nothing, nor does a connection that breaks', async () => {
    const held = new Held()
    held.enrolment.connected()
    held.enrolment.close()
    await held.answer()
    held.enrolment.disconnected('broken')
    expect(held.status).toBe('closed')
  })
})

test('a connection that becomes ready after a close is not enrolled', async () => {
  const held = new Held()
  held.enrolment.close()
  held.enrolment.connected()
  expect(held.status).toBe('closed')
  expect(held.answers).toEqual([])
  await held.clock.advance(0)
})

test('checks a refused server again once a second, and not a voting one', async () => {
  const held = new Held()
  held.refusal = REFUSED
  held.enrolment.connected()
  await held.answer()
  expect(held.status).toBe('refused')
  await held.clock.advance(999)
  expect(held.answers).toHaveLength(0)
  await held.clock.advance(1)
  expect(held.answers).toHaveLength(1)
  held.refusal = undefined
  await held.answer()
  expect(held.status).toBe('enrolled')
  await held.clock.advance(5_000)
  expect(held.answers).toHaveLength(0)
})

test('a caller that waits for the first answer is released by a close or a break', async () => {
  for (const end of ['close', 'disconnected'] as const) {
    const held = new Held()
    held.enrolment.connected()
    held.enrolment[end]('the end')
    await held.enrolment.firstAnswer
    expect(held.answers).toHaveLength(1)
  }
})

describe('a caller that waits for the enrolment', () => {
  const outcome = async (held: Held): Promise<boolean | 'waits'> => {
    const settled = held.enrolment.whenEnrolled()
    await held.clock.advance(0)
    return Promise.race([settled, Promise.resolve<'waits'>('waits')])
  }

  test('continues at once where the server is enrolled or refused', async () => {
    const held = await new Held().enrolled()
    expect(await outcome(held)).toBe(true)
    held.enrolment.close()
    expect(await outcome(held)).toBe(false)
  })

  test('continues at the enrolment, or at a close', async () => {
    const held = new Held()
    held.enrolment.connected()
    expect(await outcome(held)).toBe('waits')
    const enrolled = held.enrolment.whenEnrolled()
    await held.answer()
    expect(await enrolled).toBe(true)
    const other = new Held()
    const closed = other.enrolment.whenEnrolled()
    other.enrolment.close()
    expect(await closed).toBe(false)
  })
})
