/** What real processes' locks have logged is judged clean, and each alteration of it is found. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { Writable } from 'node:stream'
import { gzipSync } from 'node:zlib'
import { pino } from 'pino'
import { beforeAll, afterAll, describe, expect, it } from 'vitest'
import type { Logger } from '../../../src/index.ts'
import { verifyHistory, type HistoryVerdict } from '../../../src/testing/index.ts'
import { cli } from '../cli/run-cli.ts'
import { aborted, granted, useFleet } from '../../fixtures.ts'

type Line = Readonly<Record<string, unknown>>
/** Of those that must not lapse on a busy machine. */
const LONG = { leaseMs: 3_000 }
/** Longer than the clocks of an altered log may differ, so that an overlap is more than that. */
const HOLD_MS = 20
const fixture = useFleet({ masters: 3, queue: false })

/** Two locks on one fleet; one log each. */
let logs: readonly (readonly Line[])[] = []

beforeAll(async () => {
  const sinks = [sink(), sink()] as const
  const [one, two] = await Promise.all(
    sinks.map(({ logger }, index) =>
      fixture.redlock({ logger, owner: `worker-${index + 1}`, ...LONG }),
    ),
  )
  if (one === undefined || two === undefined) throw new Error('expected two locks')
  for (const redlock of [one, two, one]) {
    const lease = await granted(redlock, 'gpu')
    await lease.extend()
    await delay(HOLD_MS)
    await lease.release()
  }
  const first = await granted(one, 'gpu')
  await one.handOver(first, LONG)?.release()
  const more = [
    await two.acquire(['a', 'b'], LONG),
    await one.acquire('pool', { slots: 2, ...LONG }),
    await two.acquire('pool', { slots: 2, ...LONG }),
  ]
  for (const lease of more) await lease.release()
  await aborted((await granted(two, 'gpu', { leaseMs: 400 })).signal) // It lapses.
  await one.using('gpu', {}, () => undefined)
  await Promise.all([one.close(), two.close()])
  // Beside those about masters.
  logs = sinks.map(({ lines }) => lines.filter(({ event }) => String(event).startsWith('lease:')))
})

function sink(): { readonly logger: Logger; readonly lines: Line[] } {
  const lines: Line[] = []
  const stream = new Writable({
    write(chunk: Buffer, _encoding, done) {
      lines.push(JSON.parse(chunk.toString()) as Line)
      done()
    },
  })
  return { logger: pino({ level: 'debug' }, stream), lines }
}

const verify = (of: readonly (readonly (Line | string)[])[], options = {}) =>
  verifyHistory(
    of.map((lines, index) => ({ name: `log ${index}`, lines })),
    options,
  )

/** The logs with every line put through `change`; undefined takes it away. */
function altered(change: (line: Line) => Line | undefined): readonly (readonly Line[])[] {
  return logs.map((log) => log.map(change).filter((line) => line !== undefined))
}

/** The lines of a resource, in the order of time. */
function linesOf(resource: string, event: string): readonly Line[] {
  return logs
    .flat()
    .filter((line) => line['resource'] === resource && line['event'] === `lease:${event}`)
    .sort((a, b) => Number(a['monotonicMs']) - Number(b['monotonicMs']))
}

function at(lines: readonly Line[], index: number): Line {
  const line = lines.at(index)
  if (line === undefined) throw new Error(`there is no line ${index}`)
  return line
}

const counts = ({ violations, missing }: HistoryVerdict) =>
  Object.fromEntries(Object.entries({ ...violations, ...missing }).filter(([, count]) => count > 0))

describe('what real locks logged', () => {
  it('is clean, with extensions, hand-overs, slots, several resources and a lapse', async () => {
    const verdict = await verify(logs)
    expect(verdict.findings).toEqual([])
    expect(verdict).toMatchObject({
      ...{ verdict: 'clean', leases: 10, resources: 4, machines: 1, locks: 2, extensions: 3 },
      endings: { released: 8, 'handed-over': 1, lost: 1, unended: 0 },
    })
  })

  it('is clean in one log, and when a log is read twice', async () => {
    expect((await verify([logs.flat()])).verdict).toBe('clean')
    expect(await verify([...logs, ...logs])).toMatchObject({ verdict: 'clean', leases: 10 })
  })

  it('has no token, which is secret', () => {
    for (const line of logs.flat()) expect(line).not.toHaveProperty('token')
  })
})

describe('an alteration is found:', () => {
  it('a lease granted a little before the one before it ended', async () => {
    const second = at(linesOf('gpu', 'granted'), 1)
    const end = at(linesOf('gpu', 'released'), 0)
    const monotonicMs = Number(end['monotonicMs']) - 0.01
    const verdict = await verify(
      altered((line) => (line === second ? { ...line, monotonicMs } : line)),
    )
    expect(counts(verdict)).toEqual({ overlap: 1 })
    expect(verdict.verdict).toBe('violated')
    expect(verdict.longestOverlapMs).toBeCloseTo(0.01, 2)
    expect(verdict.findings[0]?.text).toContain('worker-1')
    expect(verdict.findings[0]?.text).toContain('worker-2')
  })

  it('a trust that reaches into the next lease, where the release was never logged', async () => {
    const end = at(linesOf('gpu', 'released'), 0)
    const verdict = await verify(altered((line) => (line === end ? undefined : line)))
    expect(verdict.violations.overlap).toBeGreaterThan(0)
    expect(verdict.missing.lines).toBe(1)
  })

  it.each([
    ['that is smaller than the one before', -1, { 'token-order': 1 }],
    ['of two leases', 0, { 'token-repeated': 1 }],
  ])('a fencing token %s', async (_what, above, found) => {
    const second = at(linesOf('gpu', 'granted'), 1)
    const fencingToken = Number(at(linesOf('gpu', 'granted'), 0)['fencingToken']) + above
    const verdict = await verify(
      altered((line) => (isOf(line, second) ? { ...line, fencingToken } : line)),
    )
    expect(counts(verdict)).toEqual(found)
  })

  it('no token of a lease whose trust was over when it was told', async () => {
    const second = at(linesOf('gpu', 'granted'), 1)
    const fencingToken = Number(at(linesOf('gpu', 'granted'), 0)['fencingToken']) - 1
    const verdict = await verify(
      altered((line) =>
        isOf(line, second)
          ? { ...line, fencingToken, ...(line['event'] === 'lease:granted' && { trustedForMs: 0 }) }
          : line,
      ),
    )
    expect(counts(verdict)).toEqual({})
  })

  it('two holders in one slot, and holders that disagree about the slots', async () => {
    const pool = (line: Line): boolean => String(line['resource']).startsWith('pool#')
    const same = await verify(
      altered((line) => (pool(line) ? { ...line, resource: 'pool#1' } : line)),
    )
    expect(counts(same)).toMatchObject({ overlap: 1 })
    const [one] = logs
    const lock = at(one ?? [], 0)['lock']
    const differ = await verify(
      altered((line) =>
        pool(line) && line['lock'] === lock && 'slots' in line ? { ...line, slots: 3 } : line,
      ),
    )
    expect(counts(differ)).toEqual({ 'slots-differ': 1 })
  })

  it('an overlap of a slot that is claimed by its name, as where slots are set', async () => {
    const [first, second] = linesOf('pool#1', 'granted').concat(linesOf('pool#2', 'granted'))
    const change = (line: Line, more: Line): Line => ({ ...line, ...('slots' in line && more) })
    const named = await verify(
      altered((line) => (isOf(line, second as Line) ? change(line, { slots: 1 }) : line)),
    )
    expect(named).toMatchObject({ verdict: 'clean', resources: 4 })
    const resource = first?.['resource']
    const same = await verify(
      altered((line) =>
        isOf(line, second as Line) ? change({ ...line, resource }, { slots: 1 }) : line,
      ),
    )
    expect(counts(same)).toMatchObject({ overlap: 1 })
    expect(same.resources).toBe(4)
  })

  it('an overlap on one of several resources', async () => {
    const pair = at(linesOf('a + b', 'granted'), 0)
    const lock = at(logs[0] ?? [], 0)['lock']
    const stranger = {
      ...{ ...pair, lock: 'stranger', seq: 1, resource: 'b', resources: undefined },
      fencingToken: Number(pair['fencingToken']) + 1,
      monotonicMs: Number(pair['monotonicMs']) + 0.01,
    }
    const end = {
      ...stranger,
      event: 'lease:released',
      seq: 2,
      monotonicMs: stranger.monotonicMs + 0.01,
    }
    expect(lock).not.toBe('stranger')
    expect(counts(await verify([...logs, [stranger, end]]))).toEqual({ overlap: 1 })
  })

  it('a lease that continues after its end', async () => {
    const log = logs[0] ?? []
    const end = at(log, -1)
    const more = { ...end, event: 'lease:extended', seq: Number(end['seq']) + 1, trustedForMs: 10 }
    const verdict = await verify([[...log, more], logs[1] ?? []])
    expect(counts(verdict)).toEqual({ revived: 1 })
  })

  it('a line that is missing, be it of a grant or at the start of a log', async () => {
    const grant = at(linesOf('gpu', 'granted'), 2)
    const without = await verify(altered((line) => (line === grant ? undefined : line)))
    // Its extension and its release are of an unknown lease.
    expect(counts(without)).toEqual({ lines: 1, grant: 2 })
    expect(without.verdict).toBe('incomplete')
    const rest = await verify([(logs[0] ?? []).slice(3), logs[1] ?? []])
    expect(counts(rest)).toEqual({ lines: 3 })
  })

  it('a missing end of a lease while its lock logs other lines', async () => {
    const log = logs[0] ?? []
    const last = at(log, -1)
    const seq = Number(last['seq'])
    const grant: Line = {
      ...at(linesOf('gpu', 'granted'), 0),
      resource: 'new',
      lease: 900,
      seq: seq + 1,
    }
    expect(await verify([[...log, grant], logs[1] ?? []])).toMatchObject({
      ...{ verdict: 'clean', endings: { unended: 1 } },
    })
    const later: Line = { ...grant, lease: 901, seq: seq + 2, resource: 'later' }
    const monotonicMs = Number(grant['monotonicMs']) + 10_000
    const verdict = await verify([[...log, grant, { ...later, monotonicMs }], logs[1] ?? []])
    expect(counts(verdict)).toEqual({ end: 1 })
  })

  it('a line that was cut off', async () => {
    const [one = [], two = []] = logs
    const cut = JSON.stringify(at(one, -1)).slice(0, -20)
    expect(counts(await verify([[...one.slice(0, -1), cut], two]))).toEqual({ unreadable: 1 })
  })

  it('an overlap on two machines, where it is longer than their clocks may differ', async () => {
    const [, two = []] = logs
    const lock = at(two, 0)['lock']
    const second = at(linesOf('gpu', 'granted'), 1)
    const end = at(linesOf('gpu', 'released'), 0)
    const overlapMs = 30
    const moved = altered((line) => {
      if (line['lock'] !== lock) return line
      const far = { ...line, monotonicMs: Number(line['monotonicMs']) + 1e9 }
      const machine = 'machine' in line ? { machine: 'another' } : {}
      const wallMs = Number(end['wallMs']) - overlapMs
      return { ...far, ...machine, ...(line === second && { wallMs }) }
    })
    const strict = await verify(moved, { clockSkewMs: 1 })
    expect(strict.violations.overlap).toBeGreaterThan(0)
    expect(strict.machines).toBe(2)
    const loose = await verify(moved, { clockSkewMs: 5_000 })
    expect(counts(loose)).toEqual({})
    expect(loose.uncertain).toBeGreaterThan(0)
  })
})

describe('bullmq-redlock verify', () => {
  let directory = ''
  const file = (name: string): string => join(directory, name)

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'verify-test-'))
    const text = (lines: readonly Line[]): string =>
      lines.map((line) => `${JSON.stringify(line)}\n`).join('')
    await Promise.all(logs.map((lines, index) => writeFile(file(`${index}.ndjson`), text(lines))))
    const second = at(linesOf('gpu', 'granted'), 1)
    const wrong = altered((line) =>
      isOf(line, second) ? { ...line, fencingToken: 1, owner: 'evil\u001b[2J' } : line,
    )
    await writeFile(file('wrong.ndjson'), text(wrong.flat()))
    await writeFile(file('part.ndjson'), text((logs[0] ?? []).slice(3)))
    await writeFile(file('other.ndjson'), '{"event":"job:started"}\nlistening on 3000\n')
  })
  afterAll(() => rm(directory, { recursive: true }))

  it('clean logs: exit code 0', async () => {
    const said = await cli(['verify', file('0.ndjson'), file('1.ndjson')])
    expect(said.out).toContain('10 leases on 4 resources, by 2 locks on 1 machine')
    expect(said.out).toContain('clean')
    expect(said.code).toBe(0)
  })

  it('a violation, on standard input too: exit code 1, with the evidence', async () => {
    const said = await cli(['verify', file('wrong.ndjson')])
    expect(said.out).toMatch(/token-order +a fencing token that did not rise: gpu of /)
    expect(said.out).toContain('1 × token-order')
    expect(said.out).not.toContain('\u001b[2J')
    expect(said.code).toBe(1)
    const input = logs
      .flat()
      .map((line) => JSON.stringify(line))
      .join('\n')
    const piped = await cli(['verify', '--json', '-'], { input })
    expect(piped.code).toBe(0)
    expect(piped.json()).toMatchObject({ verdict: 'clean', leases: 10, files: 1 })
  })

  it('missing lines: exit code 1, unless they may be missing', async () => {
    const args = ['verify', '--json', file('part.ndjson')]
    const strict = await cli(args)
    expect(strict.json()).toMatchObject({ verdict: 'incomplete', missing: { lines: 3 } })
    expect(strict.code).toBe(1)
    expect((await cli([...args, '--allow-missing'])).code).toBe(0)
  })

  it('a log that is compressed: it is not passed over', async () => {
    await writeFile(file('1.ndjson.gz'), gzipSync(await readFile(file('1.ndjson'))))
    const said = await cli(['verify', file('0.ndjson'), file('1.ndjson.gz')])
    expect(said.out).toMatch(/1.ndjson.gz cannot be read: it is no text.*unpack/s)
    expect(said.code).toBe(1)
  })

  it('what cannot be judged: exit code 2', async () => {
    const empty = await cli(['verify', file('other.ndjson')])
    expect(empty.out).toContain('log at the level debug')
    expect(empty.code).toBe(2)
    const absent = await cli(['verify', file('absent.ndjson')])
    expect(absent.err).toContain('cannot read')
    expect(absent.code).toBe(2)
    expect((await cli(['verify', '--clock-skew-ms', 'x', file('0.ndjson')])).code).toBe(2)
    expect((await cli(['verify'])).code).toBe(2)
  })
})

/** Whether a line is of the lease that was granted in `grant`. */
function isOf(line: Line, grant: Line): boolean {
  return line['lock'] === grant['lock'] && line['lease'] === grant['lease']
}
