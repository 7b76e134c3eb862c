/** Whether an acquire is granted when it should be, and only then. */
import { setTimeout as delay } from 'node:timers/promises'
import { monotonicMs } from '../../../test/faults/monotonic.ts'
import type { RemoteClient } from '../../peers/remote-client.ts'
import { sum } from '../../rounds.ts'
import * as hazard from '../hazard.ts'
import type { Hazard } from '../hazard.ts'

const LATE = { ttlMs: 200, delayMs: 400 }

export const expiredGrant: Hazard = {
  title: 'A grant that comes too late is refused',
  scenario: `every master's reply takes ${LATE.delayMs} ms and the lease lasts ${LATE.ttlMs} ms`,
  async run(bench) {
    const client = await bench.client()
    const other = await bench.other()
    for (const proxy of bench.masters.proxies) proxy.delay({ repliesMs: LATE.delayMs })
    const acquired = await client.acquire('r', LATE.ttlMs, 5_000)
    bench.happened('delayed replies', bench.masters.proxy(0).counters.replies.delayed)
    if (acquired.status !== 'held') {
      return hazard.verdict(acquired.status === 'refused', hazard.outcomeOf(acquired))
    }
    const second = await other.acquire('r', LATE.ttlMs, 2_000)
    const stillHeld = await client.soon('isHeld', acquired.held)
    const left =
      acquired.remainingMs === undefined
        ? `granted, says ${stillHeld ? 'held' : 'not held'}`
        : `granted with ${hazard.milliseconds(acquired.remainingMs)} left`
    const both = second.status === 'held' ? 'a second client got it too' : 'no second client got it'
    return hazard.fail(`${left}; ${both}`)
  },
}

const BLOCKED = { ttlMs: 8_000, foreignMs: 250, waitMs: 2_000 }

export const selfBlock: Hazard = {
  title: 'A split vote does not block its own retries',
  scenario: `one master is down and a foreign key is on two others for ${BLOCKED.foreignMs} ms; retries for ${hazard.milliseconds(BLOCKED.waitMs)}, lease ${hazard.milliseconds(BLOCKED.ttlMs)}`,
  async run(bench) {
    const { ttlMs, foreignMs, waitMs } = BLOCKED
    const client = await bench.client({ waitMs, masterTimeoutMs: 100, commandTimeoutMs: 200 })
    await bench.masters.proxy(4).refuse()
    await bench.occupy(client.key('r'), [0, 1], foreignMs)
    const acquired = await client.acquire('r', ttlMs, ttlMs - 500)
    bench.happened('a refusing master', bench.masters.proxy(4).counters.resets)
    if (acquired.status !== 'refused') {
      return hazard.verdict(acquired.status === 'held', hazard.outcomeOf(acquired))
    }
    return hazard.fail(
      `gave up after ${hazard.milliseconds(acquired.tookMs)} though no client held it`,
    )
  },
}

const CROWD = { size: 8, latencyMs: 20, holdMs: 5, waitMs: 10_000 }

export const contenders: Hazard = {
  title: 'Eight contenders all get their turn',
  scenario: `0 to ${CROWD.latencyMs} ms of random latency to each master, held for ${CROWD.holdMs} ms, retries for ${hazard.milliseconds(CROWD.waitMs)}`,
  async run(bench) {
    const { size, latencyMs, waitMs } = CROWD
    // The first one says that nobody has used these masters.
    const first = await bench.client({ waitMs })
    const others = Array.from({ length: size - 1 }, () => bench.client({ waitMs }))
    const clients = [first, ...(await Promise.all(others))]
    for (const proxy of bench.masters.proxies) {
      proxy.delay({ requestsMs: () => Math.random() * latencyMs })
    }
    const startedAt = monotonicMs()
    const turns = await Promise.all(clients.map((client) => turn(client)))
    const tookMs = monotonicMs() - startedAt
    bench.happened('random latency', bench.masters.proxy(0).counters.requests.delayed)
    const served = turns.filter(Boolean).length
    return hazard.verdict(
      served === size,
      `${served} of ${size} within ${hazard.milliseconds(tookMs)}`,
    )
  },
}

async function turn(client: RemoteClient): Promise<boolean> {
  const acquired = await client.acquire('r', 5_000, CROWD.waitMs + 1_500)
  if (acquired.status !== 'held') return false
  await delay(CROWD.holdMs)
  await client.release(acquired.held)
  return true
}

export const evenMasters: Hazard = {
  title: 'One vote for and one against is an answer',
  scenario: 'two masters, a foreign key on one of them, a single attempt',
  async run(bench) {
    const client = await bench.client({ masters: 2 })
    await bench.occupy(client.key('r'), [0], 60_000)
    const acquired = await client.acquire('r', 5_000, 3_000)
    bench.happened('a foreign key', (await bench.ttlsMs(client.key('r')))[0] ?? 0)
    return hazard.verdict(acquired.status === 'refused', hazard.outcomeOf(acquired))
  },
}

export const lowQuorum: Hazard = {
  title: 'A quorum below the majority cannot be configured',
  scenario: '`quorum: 1` is passed where options go, and a foreign key is on three of five masters',
  async run(bench) {
    let client
    try {
      client = await bench.client({ quorum: 1 })
    } catch (error) {
      return hazard.pass(`refused: ${(error as Error).message}`)
    }
    await bench.occupy(client.key('r'), [0, 1, 2], 60_000)
    const acquired = await client.acquire('r', 5_000, 3_000)
    const foreign = (await bench.ttlsMs(client.key('r'))).slice(0, 3).filter((ttlMs) => ttlMs > 0)
    bench.happened('three foreign keys', foreign.length === 3 ? 3 : 0)
    return acquired.status === 'held'
      ? hazard.fail('accepted: granted with two of five masters while another held three')
      : hazard.pass('there is no such option, and two of five are refused')
  },
}

const GHOST = { timeoutMs: 50, delayMs: 300, ttlMs: 10_000, slow: [0, 1, 2] }

export const ghost: Hazard = {
  title: 'No ghost lease is left after a timeout',
  scenario: `requests to three masters take ${GHOST.delayMs} ms and the limit for a master is ${GHOST.timeoutMs} ms (the library's, else ioredis' commandTimeout)`,
  async run(bench) {
    const { timeoutMs, delayMs, ttlMs, slow } = GHOST
    const limits = { masterTimeoutMs: timeoutMs, commandTimeoutMs: timeoutMs }
    const client = await bench.client(limits)
    const other = await bench.other()
    const proxies = slow.map((index) => bench.masters.proxy(index))
    const forwarded = (): number => sum(proxies.map(({ counters }) => counters.requests.bytes))
    for (const proxy of proxies) proxy.delay({ requestsMs: delayMs })
    const acquired = await client.acquire('r', ttlMs, 5_000)
    const before = forwarded()
    const outcome = hazard.outcomeOf(acquired)
    if (acquired.status === 'held') return hazard.notApplicable(`${outcome}: it did not time out`)
    if (acquired.status === 'pending') return hazard.fail(outcome)
    await delay(2 * delayMs + 200)
    bench.happened('requests that arrived after the timeout', forwarded() - before)
    const ghosts = (await bench.ttlsMs(client.key('r'))).filter((leftMs) => leftMs > 0)
    if (ghosts.length === 0) return hazard.pass(`${outcome}, nothing left`)
    const next = await other.acquire('r', ttlMs, 2_000)
    const blocked = next.status === 'held' ? '' : '; the next client is blocked'
    const longest = hazard.milliseconds(Math.max(...ghosts))
    return hazard.fail(`${outcome}, but ${ghosts.length} keys stay for ${longest}${blocked}`)
  },
}

const LEASES = 10

export const fencing: Hazard = {
  title: 'Fencing tokens increase',
  scenario: `${LEASES} leases in turn by two clients; the masters that have a counter lose it once`,
  async run(bench) {
    const client = await bench.client({ waitMs: 1_000 })
    const other = await bench.other({ waitMs: 1_000 })
    const tokens: (number | undefined)[] = []
    for (let nr = 0; nr < LEASES; nr++) {
      const holder = nr % 2 === 0 ? client : other
      const acquired = await holder.acquire('r', 5_000, 3_000)
      if (acquired.status !== 'held') throw new Error(`not granted: ${acquired.status}`)
      tokens.push(acquired.fencingToken)
      await holder.release(acquired.held)
      if (nr !== LEASES / 2) continue
      // Where the library keeps counters: whatever is named so.
      for (const redis of bench.masters.connections) {
        for (const key of await redis.keys('s-*:fence:*')) await redis.del(key)
      }
    }
    if (tokens.every((token) => token === undefined)) return hazard.notApplicable('it has none')
    const increase = tokens.every(
      (token, index) => index === 0 || (token ?? 0) > (tokens[index - 1] ?? 0),
    )
    const how = increase ? 'increase' : 'do not increase'
    return hazard.verdict(
      increase,
      `${LEASES} leases, tokens ${how}: ${tokens[0]} … ${tokens.at(-1)}`,
    )
  },
}
