/**
 * Matrix row 10: a master that answers anything but what it should has not voted, and nothing
 * crashes.
 */
import { describe, expect, it } from 'vitest'
import {
  MasterRefusedError,
  QuorumUnreachableError,
  Redlock,
  silentLogger,
} from '../../src/index.ts'
import { useFleet } from '../fixtures.ts'
import { assertNoLeaks } from '../support/leaks.ts'
import { undisturbed } from '../support/undisturbed.ts'
import { bulk, FakeMaster } from './fake-master.ts'

assertNoLeaks()
const fixture = useFleet({ masters: 3, queue: false })

let runs = 0
function redlockOn(masters: readonly string[]): Redlock {
  return new Redlock({
    masters,
    namespace: `odd-${process.pid}-${++runs}`,
    leaseMs: 1_000,
    maxLeaseMs: 1_000,
    // A busy machine is not what is tested here.
    masterTimeoutMs: 250,
    logger: silentLogger,
  })
}

const errors = [
  'BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.',
  'LOADING Redis is loading the dataset in memory',
  "OOM command not allowed when used memory > 'maxmemory'.",
  'MISCONF Redis is configured to save RDB snapshots, but it is currently not able to persist on disk.',
  "READONLY You can't write against a read only replica.",
  'NOAUTH Authentication required.',
  'WRONGTYPE Operation against a key holding the wrong kind of value',
  'ERR Error running script (call to f_0): @user_script:1: attempt to index a nil value',
  'NOSCRIPT No matching script. Please use EVAL.',
  'MASTERDOWN Link with MASTER is down',
  'NOPERM this user has no permissions to run the evalsha command',
  'CLUSTERDOWN The cluster is down',
]

const nonsense: readonly (readonly [string, string])[] = [
  ['nil', '$-1\r\n'],
  ['an empty array', '*0\r\n'],
  ['a nil array', '*-1\r\n'],
  ['a number', ':1\r\n'],
  ['a status', '+OK\r\n'],
  ['granted without a counter', `*2\r\n${bulk('granted')}:1\r\n`],
  ['granted with text for a counter', `*3\r\n${bulk('granted')}:1\r\n${bulk('9999999999999999')}`],
  ['granted with nil for a counter', `*3\r\n${bulk('granted')}:1\r\n$-1\r\n`],
  [
    'granted with a counter beyond a double',
    `*3\r\n${bulk('granted')}:1\r\n:9223372036854775807\r\n`,
  ],
  ['an unknown word', `*3\r\n${bulk('perhaps')}:1\r\n:2\r\n`],
  ['nested arrays', `*2\r\n*1\r\n${bulk('granted')}:1\r\n`],
  ['a push of the newer protocol', `>2\r\n${bulk('message')}${bulk('granted')}`],
  ['bytes that are no protocol', '\x00\xff\xfe garbage \r\n'],
  ['half a reply', '*3\r\n$7\r\ngran'],
  ['a reply of unreasonable length', '$2147483647\r\nx'],
]

/** Of what it cannot read, the connection ends. */
function saysWhy(error: unknown): boolean {
  return error instanceof MasterRefusedError || error instanceof QuorumUnreachableError
}

async function judge(reply: string): Promise<void> {
  const fakes = await Promise.all(Array.from({ length: 3 }, () => FakeMaster.start(reply)))
  try {
    const real = fixture.fleet.urls
    const [minority, majority] = [
      redlockOn([...real.slice(0, 3), ...fakes.slice(0, 2).map(({ url }) => url)]),
      redlockOn([...real.slice(0, 2), ...fakes.map(({ url }) => url)]),
    ]
    await using few = minority
    await using many = majority
    await Promise.all([
      few.bootstrap({ newFleet: true, confirmed: true }),
      expect(many.bootstrap({ newFleet: true, confirmed: true })).rejects.toSatisfy(saysWhy),
    ])
    const outcome = await few.tryAcquire('r')
    expect(outcome.status).toBe('granted')
    if (outcome.status === 'granted') {
      expect((await outcome.lease.extend()).status).toBe('extended')
      await outcome.lease.release()
    }
    expect((await many.tryAcquire('r')).status).toBe('unreachable')
    for (const { calls } of fakes) expect(calls).toBeGreaterThan(0)
  } finally {
    await Promise.all(fakes.map((fake) => fake[Symbol.asyncDispose]()))
  }
}

describe.concurrent('from a server that answers every script call with', () => {
  const cases = [
    ...errors.map((text) => [text.split(' ')[0] ?? '', `-${text}\r\n`] as const),
    ...nonsense,
  ]
  it.each(cases)('%s', (_, reply) => {
    const bystander = fixture.fleet.masters[0]
    if (bystander === undefined) throw new Error('the fleet has no master')
    return undisturbed({ bystander }, () => judge(reply))
  })
})
