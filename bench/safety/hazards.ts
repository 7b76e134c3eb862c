/** The hazards, in the order of the table at the end. */
import { stat, truncate } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { monotonicMs } from '../../test/faults/monotonic.ts'
import { aofOf } from '../../test/support/aof.ts'
import type { Acquired, RemoteClient } from '../peers/libraries.ts'
import { sum } from '../rounds.ts'
import {
  alsoTuned,
  type Bench,
  type Cell,
  fail,
  type Hazard,
  milliseconds,
  notApplicable,
  outcomeOf,
  pass,
  verdict,
} from './bench.ts'

// Whether an acquire is granted when it should be, and only then.

const LATE = { ttlMs: 200, delayMs: 400 }

const expiredGrant: Hazard = {
  title: 'A grant that comes too late is refused',
  scenario: `every master's reply takes ${LATE.delayMs} ms and the lease lasts ${LATE.ttlMs} ms`,
  async run(bench) {
    const client = await bench.client()
    const other = await bench.other()
    for (const proxy of bench.masters.proxies) proxy.delay({ repliesMs: LATE.delayMs })
    const acquired = await client.acquire('r', LATE.ttlMs, 5_000)
    bench.happened('delayed replies', bench.masters.proxy(0).counters.replies.delayed)
    if (acquired.status !== 'held') {
      return verdict(acquired.status === 'refused', outcomeOf(acquired))
    }
    const second = await other.acquire('r', LATE.ttlMs, 2_000)
    const stillHeld = await client.soon('isHeld', acquired.held)
    const left =
      acquired.remainingMs === undefined
        ? `granted, says ${stillHeld ? 'held' : 'not held'}`
        : `granted with ${milliseconds(acquired.remainingMs)} left`
    const both = second.status === 'held' ? 'a second client got it too' : 'no second client got it'
    return fail(`${left}; ${both}`)
  },
}

const BLOCKED = { ttlMs: 8_000, foreignMs: 250, waitMs: 2_000 }

const selfBlock: Hazard = {
  title: 'A split vote does not block its own retries',
  scenario: `one master is down and a foreign key is on two others for ${BLOCKED.foreignMs} ms; retries for ${milliseconds(BLOCKED.waitMs)}, lease ${milliseconds(BLOCKED.ttlMs)}`,
  async run(bench) {
    const { ttlMs, foreignMs, waitMs } = BLOCKED
    const client = await bench.client({ waitMs, masterTimeoutMs: 100, commandTimeoutMs: 200 })
    await bench.masters.proxy(4).refuse()
    await bench.occupy(client.key('r'), [0, 1], foreignMs)
    const acquired = await client.acquire('r', ttlMs, ttlMs - 500)
    bench.happened('a refusing master', bench.masters.proxy(4).counters.resets)
    if (acquired.status !== 'refused') {
      return verdict(acquired.status === 'held', outcomeOf(acquired))
    }
    return fail(`gave up after ${milliseconds(acquired.tookMs)} though no client held it`)
  },
}

const CROWD = { size: 8, latencyMs: 20, holdMs: 5, waitMs: 10_000 }

const contenders: Hazard = {
  title: 'Eight contenders all get their turn',
  scenario: `0 to ${CROWD.latencyMs} ms of random latency to each master, held for ${CROWD.holdMs} ms, retries for ${milliseconds(CROWD.waitMs)}`,
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
    return verdict(served === size, `${served} of ${size} within ${milliseconds(tookMs)}`)
  },
}

async function turn(client: RemoteClient): Promise<boolean> {
  const acquired = await client.acquire('r', 5_000, CROWD.waitMs + 1_500)
  if (acquired.status !== 'held') return false
  await delay(CROWD.holdMs)
  await client.release(acquired.held)
  return true
}

const evenMasters: Hazard = {
  title: 'One vote for and one against is an answer',
  scenario: 'two masters, a foreign key on one of them, a single attempt',
  async run(bench) {
    const client = await bench.client({ masters: 2 })
    await bench.occupy(client.key('r'), [0], 60_000)
    const acquired = await client.acquire('r', 5_000, 3_000)
    bench.happened('a foreign key', (await bench.ttlsMs(client.key('r')))[0] ?? 0)
    return verdict(acquired.status === 'refused', outcomeOf(acquired))
  },
}

const lowQuorum: Hazard = {
  title: 'A quorum below the majority cannot be configured',
  scenario: '`quorum: 1` is passed where options go, and a foreign key is on three of five masters',
  async run(bench) {
    let client
    try {
      client = await bench.client({ quorum: 1 })
    } catch (error) {
      return pass(`refused: ${(error as Error).message}`)
    }
    await bench.occupy(client.key('r'), [0, 1, 2], 60_000)
    const acquired = await client.acquire('r', 5_000, 3_000)
    const foreign = (await bench.ttlsMs(client.key('r'))).slice(0, 3).filter((ttlMs) => ttlMs > 0)
    bench.happened('three foreign keys', foreign.length === 3 ? 3 : 0)
    return acquired.status === 'held'
      ? fail('accepted: granted with two of five masters while another held three')
      : pass('there is no such option, and two of five are refused')
  },
}

const GHOST = { timeoutMs: 50, delayMs: 300, ttlMs: 10_000, slow: [0, 1, 2] }

const ghost: Hazard = {
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
    const outcome = outcomeOf(acquired)
    if (acquired.status === 'held') return notApplicable(`${outcome}: it did not time out`)
    if (acquired.status === 'pending') return fail(outcome)
    await delay(2 * delayMs + 200)
    bench.happened('requests that arrived after the timeout', forwarded() - before)
    const ghosts = (await bench.ttlsMs(client.key('r'))).filter((leftMs) => leftMs > 0)
    if (ghosts.length === 0) return pass(`${outcome}, nothing left`)
    const next = await other.acquire('r', ttlMs, 2_000)
    const blocked = next.status === 'held' ? '' : '; the next client is blocked'
    const longest = milliseconds(Math.max(...ghosts))
    return fail(`${outcome}, but ${ghosts.length} keys stay for ${longest}${blocked}`)
  },
}

const LEASES = 10

const fencing: Hazard = {
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
    if (tokens.every((token) => token === undefined)) return notApplicable('it has none')
    const increase = tokens.every(
      (token, index) => index === 0 || (token ?? 0) > (tokens[index - 1] ?? 0),
    )
    const how = increase ? 'increase' : 'do not increase'
    return verdict(increase, `${LEASES} leases, tokens ${how}: ${tokens[0]} … ${tokens.at(-1)}`)
  },
}

// Some of the five masters are gone.

/** Far more than a loopback round trip on a busy machine, far less than anybody's timeout. */
const PROMPT_MS = 500

/** One of five masters is away, in one of the two ways in which a server can be. */
const awayOne = (how: 'drop' | 'refuse', title: string, scenario: string): Hazard => ({
  ...{ title, scenario },
  run: (bench) =>
    alsoTuned(bench, 0, async (client, resource) => {
      const proxy = bench.masters.proxy(4)
      await proxy[how]()
      const acquired = await client.acquire(resource, 10_000, 6_000)
      const { requests, resets } = proxy.counters
      bench.happened('a master that is away', how === 'drop' ? requests.lost : resets)
      const prompt = acquired.status === 'held' && acquired.tookMs <= PROMPT_MS
      return verdict(prompt, outcomeOf(acquired))
    }),
})

const blackHole = awayOne(
  'drop',
  `One black-holed master costs at most ${PROMPT_MS} ms`,
  'one of five masters accepts connections and never answers',
)

const refusingMaster = awayOne(
  'refuse',
  `One refusing master costs at most ${PROMPT_MS} ms`,
  'one of five masters refuses connections',
)

const MINORITY = { ttlMs: 10_000, limitMs: 12_500 }

const refusingMinority: Hazard = {
  title: 'One refusing master does not end mutual exclusion',
  scenario: `one of five masters refuses connections, lease ${milliseconds(MINORITY.ttlMs)}, every setting the library's default`,
  run: (bench) =>
    alsoTuned(bench, 0, async (client, resource) => {
      const other = await bench.other()
      await bench.masters.proxy(4).refuse()
      const acquired = await client.acquire(resource, MINORITY.ttlMs, MINORITY.limitMs)
      bench.happened('reset connections', bench.masters.proxy(4).counters.resets)
      const outcome = outcomeOf(acquired)
      if (acquired.status !== 'held') return notApplicable(outcome)
      const second = await other.acquire(resource, MINORITY.ttlMs, 3_000)
      const isHeld = await client.soon('isHeld', acquired.held)
      if (second.status !== 'held' || !isHeld)
        return pass(`${outcome}, a second client was ${second.status}`)
      return fail(`${outcome} and a second client too, while the first says it holds it`)
    }),
}

const reasons: Hazard = {
  title: 'The caller can tell "taken" from "unreachable"',
  scenario:
    'another client holds it; then three of five masters refuse connections (by class, code or documented field)',
  run: (bench) =>
    alsoTuned(bench, 0, async (client, resource) => {
      const other = await bench.other()
      await other.acquire(resource, 20_000, 3_000)
      const taken = await client.acquire(resource, 5_000, 3_000)
      await Promise.all([2, 3, 4].map((index) => bench.masters.proxy(index).refuse()))
      const unreachable = await client.acquire(`${resource}-away`, 5_000, 12_000)
      bench.happened('reset connections', bench.masters.proxy(2).counters.resets)
      return verdict(
        tells(taken, 'taken') && tells(unreachable, 'unreachable'),
        `taken: ${told(taken)}; unreachable: ${told(unreachable)}`,
      )
    }),
}

function tells(acquired: Acquired, reason: string): boolean {
  return acquired.status === 'refused' && acquired.reason === reason
}

function told(acquired: Acquired): string {
  if (acquired.status !== 'refused') return outcomeOf(acquired)
  const name = acquired.message.slice(0, acquired.message.indexOf(':'))
  return `${name}, told as ${acquired.reason}, after ${milliseconds(acquired.tookMs)}`
}

const SILENT = { ttlMs: 2_000, masters: [2, 3, 4], watchMs: 3_000 }
/** A timer on a busy machine. */
const SLACK_MS = 60

const lossSignal: Hazard = {
  title: 'The holder learns of the loss by the end of its lease',
  scenario: `three of five masters fall silent under work with a lease of ${milliseconds(SILENT.ttlMs)} that is kept alive`,
  async run(bench) {
    if (bench.library.name === 'redlock-4') return notApplicable('it does not keep leases alive')
    return alsoTuned(bench, 1_000, async (client, resource) => {
      const proxies = SILENT.masters.map((index) => bench.masters.proxy(index))
      const lost = (): number => sum(proxies.map(({ counters }) => counters.requests.lost))
      const lostBefore = lost()
      const work = await client.startUsing(resource, SILENT.ttlMs)
      await delay(300)
      await Promise.all(proxies.map((proxy) => proxy.drop()))
      const asOf = monotonicMs()
      const ttlsMs = await bench.ttlsMs(client.key(resource))
      // When the third key of five is gone, another client can have a quorum.
      const endAt = asOf + ([...ttlsMs].sort((a, b) => a - b)[2] ?? 0)
      await delay(Math.max(0, endAt + SILENT.watchMs - monotonicMs()))
      const { lostAt, settled } = await client.soon('work', work)
      bench.happened('swallowed requests', lost() - lostBefore)
      if (lostAt === undefined) {
        const goesOn = settled === undefined ? 'the work still runs' : 'the work is over'
        return fail(`no signal ${milliseconds(SILENT.watchMs)} after the end, ${goesOn}`)
      }
      const lateMs = lostAt - endAt
      const when = `${milliseconds(Math.abs(lateMs))} ${lateMs > 0 ? 'after' : 'before'}`
      return verdict(lateMs <= SLACK_MS, `signal ${when} the end`)
    })
  },
}

// What work under a lease is told, and what it does to the lease.

const ROUTINE = { ttlMs: 2_000, limitMs: 5_000, error: 'insufficient funds' }

const routineResult: Hazard = {
  title: "The routine's result is not masked",
  scenario: 'the keys are deleted under the work; it then returns a value, or throws its own error',
  async run(bench) {
    const client = await bench.client({ waitMs: 2_000 })
    const returned = await runUnder(bench, client, 'returns')
    const thrown = await runUnder(bench, client, 'throws', ROUTINE.error)
    const isReturned = returned.value === 'done'
    const isThrown = thrown.value.includes(ROUTINE.error)
    const value = isReturned ? 'value passed on' : `value lost: ${returned.value}`
    const error = isThrown ? 'error passed on' : `error masked by "${thrown.value.slice(0, 80)}"`
    return verdict(
      isReturned && isThrown,
      `${value} (${milliseconds(returned.tookMs)}); ${error} (${milliseconds(thrown.tookMs)})`,
    )
  },
}

async function runUnder(bench: Bench, client: RemoteClient, resource: string, error?: string) {
  const work = await client.startUsing(resource, ROUTINE.ttlMs)
  const deleted = await Promise.all(
    bench.masters.connections.map((redis) => redis.del(client.key(resource))),
  )
  bench.happened('deleted keys', deleted.filter((count) => count === 1).length)
  await client.soon('finish', { work, error })
  const finishedAt = performance.now()
  const tookMs = (): number => performance.now() - finishedAt
  while (tookMs() < ROUTINE.limitMs) {
    const { settled } = await client.soon('work', work)
    if (settled !== undefined) return { value: settled, tookMs: tookMs() }
    await delay(5)
  }
  return { value: 'it never settled', tookMs: tookMs() }
}

const NESTED = { ttlMs: 5_000, watchMs: 300 }

const nestedUse: Hazard = {
  title: 'Nested use of a lock neither hangs nor ends it',
  scenario:
    'work under a lease takes the same resource again and releases that; then another client tries',
  async run(bench) {
    const client = await bench.client()
    const other = await bench.other()
    const startedAt = performance.now()
    const work = await client.startUsing('r', NESTED.ttlMs, true)
    const tookMs = performance.now() - startedAt
    const { inner } = await client.soon('work', work)
    const second = await other.acquire('r', NESTED.ttlMs, NESTED.watchMs)
    const { lostAt, settled } = await client.soon('work', work)
    await client.soon('finish', { work })
    const words = `the inner one was ${inner ?? 'not tried'} after ${milliseconds(tookMs)}`
    if (second.status !== 'held') return pass(`${words}; another client was refused`)
    const isTold = lostAt !== undefined || settled !== undefined
    return fail(`${words}; another client got it${isTold ? '' : ' while the work goes on'}`)
  },
}

const STOPPED = { ttlMs: 1_000, forMs: 2_500 }

const suspendedHolder: Hazard = {
  title: 'A holder that was suspended knows that its lease is over',
  scenario: `the holder of a lease of ${milliseconds(STOPPED.ttlMs)} is stopped for ${milliseconds(STOPPED.forMs)}, another client gets it, and the first goes on`,
  async run(bench) {
    const client = await bench.client()
    const other = await bench.other()
    const first = await client.acquire('r', STOPPED.ttlMs, 3_000)
    if (first.status !== 'held') throw new Error(`not granted: ${first.status}`)
    client.process.signal('SIGSTOP')
    await delay(STOPPED.forMs)
    const second = await other.acquire('r', 10 * STOPPED.ttlMs, 3_000)
    client.process.signal('SIGCONT')
    bench.happened('a lease that another client got', second.status === 'held' ? 1 : 0)
    const isHeld = await client.soon('isHeld', first.held)
    const late = milliseconds(STOPPED.forMs - STOPPED.ttlMs)
    if (isHeld) return fail(`it says that it holds it, ${late} after the end, while another does`)
    return pass(`it says that the lease is over, ${late} after the end`)
  },
}

// A lease is on three of five masters, and one of the three loses its key.

const LOSS_TTL_MS = 10_000
const FOREIGN_MS = 400
const HOUR_MS = 3_600_000
/** The master that loses the key. */
const LOSER = 2
const LEASE = `a lease of ${milliseconds(LOSS_TTL_MS)} is on three of five masters`

const emptyRestart: Hazard = {
  title: 'A master that restarts empty lets no second holder in',
  scenario: `${LEASE} and one of the three restarts without its data`,
  run: (bench) => judgeLoss(bench, undefined, () => loser(bench).restart({ keepData: false })),
}

const halfDurable: Hazard = {
  title: 'A master that lost its last second lets no second holder in',
  scenario: `${LEASE}; one syncs its file once a second, and comes back as it was before`,
  run: (bench) =>
    judgeLoss(bench, 'everysec', async ({ file, size }) => {
      await loser(bench).kill()
      await truncate(file, size)
      await loser(bench).restart()
    }),
}

const clockStep: Hazard = {
  title: 'A master whose clock steps forward lets no second holder in',
  scenario: `${LEASE} and the clock of one of the three steps forward by an hour`,
  run: (bench) => withClock(bench, undefined, (step) => step()),
}

const wrongReboot: Hazard = {
  title: 'A master that reboots with a wrong clock lets no second holder in',
  scenario: `${LEASE} and one of the three reboots with its data and a clock that is an hour ahead`,
  run: (bench) =>
    withClock(bench, 'always', async (step) => {
      await loser(bench).kill()
      await step()
      await loser(bench).restart()
    }),
}

const loser = ({ masters }: Bench) => masters.server(LOSER)

async function withClock(
  bench: Bench,
  fsync: 'always' | undefined,
  strike: (step: () => Promise<void>) => Promise<void>,
): Promise<Cell> {
  const clock = bench.library.clocks?.clock(loser(bench).port)
  if (clock === undefined) return notApplicable('clocks of servers cannot be set here')
  const step = (): Promise<void> => {
    clock.step(HOUR_MS)
    return Promise.resolve()
  }
  try {
    return await judgeLoss(bench, fsync, () => strike(step))
  } finally {
    clock.step(-clock.aheadMs)
    await restartLoser(bench, 'no')
  }
}

/** Empty. Whether it writes down what it does, and how soon. */
async function restartLoser(bench: Bench, fsync: 'always' | 'everysec' | 'no'): Promise<void> {
  const config = fsync === 'no' ? { appendonly: 'no' } : { appendonly: 'yes', appendfsync: fsync }
  await loser(bench).restart({ keepData: false, config })
  await bench.masters.connection(LOSER).ping()
}

/** @param fsync of the loser; undefined where it has no file. */
async function judgeLoss(
  bench: Bench,
  fsync: 'always' | 'everysec' | undefined,
  strike: (before: { readonly file: string; readonly size: number }) => Promise<void>,
): Promise<Cell> {
  try {
    if (fsync !== undefined) await restartLoser(bench, fsync)
    const client = await bench.client({ waitMs: 0 })
    const key = client.key('r')
    // Its file, as long as nothing holds a lease.
    const file = (fsync && (await aofOf(bench.masters.connection(LOSER)))) ?? ''
    const size = file === '' ? 0 : (await stat(file)).size
    await bench.occupy(key, [3, 4], FOREIGN_MS)
    const first = await client.acquire('r', LOSS_TTL_MS, 3_000)
    if (first.status !== 'held') throw new Error(`not granted on three masters: ${first.status}`)
    // The foreign keys end.
    while ((await bench.ttlsMs(key)).slice(3).some((ttlMs) => ttlMs > 0)) await delay(5)
    const before = await bench.masters.connection(LOSER).pttl(key)
    await strike({ file, size })
    const other = await bench.other()
    const ttlsMs = await bench.ttlsMs(key)
    bench.happened('a key that was lost', before > 0 && ttlsMs[LOSER] === 0 ? 1 : 0)
    const second = await other.acquire('r', LOSS_TTL_MS, 3_000)
    const isHeld = await client.soon('isHeld', first.held)
    const left = `${milliseconds(ttlsMs[0] ?? 0)} of the first's lease left`
    if (second.status === 'held' && isHeld) return fail(`a second client got it with ${left}`)
    const what = second.status === 'pending' ? 'had no answer' : 'was refused'
    return pass(`the second client ${what}; ${left}`)
  } finally {
    if (fsync !== undefined) await restartLoser(bench, 'no')
  }
}

export const hazards: readonly Hazard[] = [
  ...[expiredGrant, selfBlock, contenders, blackHole, refusingMaster, refusingMinority],
  ...[ghost, lossSignal, evenMasters, lowQuorum, routineResult, nestedUse, suspendedHolder],
  ...[emptyRestart, halfDurable, clockStep, wrongReboot, reasons, fencing],
]
