/**
 * `doctor` names what is wrong with real servers, says what to do, and ends with the right code.
 */
import { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { Redlock, silentLogger } from '../../../src/index.ts'
import {
  startFleet,
  startServer,
  type Fleet,
  type ServerConfig,
} from '../../../src/testing/index.ts'
import type { Diagnosis } from '../../../src/tools/operator/diagnosis.ts'
import { compileShim } from '../../faults/shimmed-clock.ts'
import { ask } from '../../support/ask.ts'
import { hasCopied } from '../../support/has-copied.ts'
import { until, useClosers } from '../../fixtures.ts'
import { cli, type Said } from './run-cli.ts'
import { fleetEnv } from '../../support/fleet-env.ts'

const NAMESPACE = 'doctor'
const { add, closing } = useClosers()

const fleetOf = async (masters: number, config: ServerConfig = {}): Promise<Fleet> =>
  closing(await startFleet({ masters, queue: false, config }))

const openLock = ({ urls: masters }: Pick<Fleet, 'urls'>): Redlock =>
  new Redlock({ masters, namespace: NAMESPACE, logger: silentLogger })

async function bootstrapped(masters: number, config: ServerConfig = {}): Promise<Fleet> {
  const fleet = await fleetOf(masters, config)
  await using redlock = openLock(fleet)
  await redlock.bootstrap({ newFleet: true })
  return fleet
}

const run = ({ urls }: Pick<Fleet, 'urls'>, ...args: readonly string[]): Promise<Said> =>
  cli(args, { env: fleetEnv(urls, NAMESPACE) })

/** What it says for machines. */
const diagnose = async (
  fleet: Pick<Fleet, 'urls'>,
  ...args: readonly string[]
): Promise<Said & { readonly found: Diagnosis }> => {
  const said = await run(fleet, 'doctor', '--json', ...args)
  return { ...said, found: said.json<Diagnosis>() }
}

function codes(diagnosis: Diagnosis, where: string): readonly string[] {
  return diagnosis.findings
    .filter((finding) => finding.where === where && finding.severity !== 'note')
    .map(({ code }) => code)
}

const hostOf = (url: string): string => new URL(url).host

describe('doctor', () => {
  it('a healthy fleet: exit code 0, in words and for machines', async () => {
    const fleet = await bootstrapped(3, { requirepass: 'geheim' })
    const said = await run(fleet, 'doctor')
    expect(said).toMatchObject({ code: 0, err: '' })
    expect(said.out).toContain('healthy: 3 of 3 masters vote, 2 are needed; 1 more may fail')
    expect(said.out).not.toContain('geheim')
    expect(said.out).not.toContain('\u001b[') // Not a terminal: no colours.
    const machine = await diagnose(fleet)
    expect(machine.found).toMatchObject({ healthy: true, voting: 3, quorum: 2, margin: 1 })
    expect(machine.out).not.toContain('geheim')
  })

  it('a master that loads its data is named, and the others continue', async () => {
    const fleet = await bootstrapped(3)
    const [first] = fleet.masters
    if (first === undefined) throw new Error('a fleet has masters')
    const redis = new Redis(first.url)
    const some = Array.from({ length: 6_000 }, (_, nr) => [`some ${nr}`, 'x'.repeat(100)])
    await redis.mset(...some.flat())
    await redis.save()
    await redis.quit()
    // Each key takes a while to load.
    const slowly = { 'key-load-delay': '2000', 'loading-process-events-interval-bytes': '1024' }
    const restarting = first.restart({ config: slowly }).catch(() => undefined)
    add(async () => {
      await first.kill()
      await restarting
    })
    let said = await diagnose(fleet)
    const named = (): { fact: string; fix: string } | undefined =>
      said.found.findings.find(
        ({ where, severity }) => where === hostOf(first.url) && severity === 'error',
      )
    // It may still run, or not listen yet.
    await until('it loads', async () => {
      said = await diagnose(fleet)
      return named()?.fact.includes('LOADING') === true
    })
    expect(said.code).toBe(1)
    expect(named()?.fix).toBe('wait: it answers when it has read its data')
    expect(said.found).toMatchObject({ voting: 2, quorum: 2 })
  })

  it('one master stopped, one that evicts, one whose clock is an hour off: each is named, with the fix', async (context) => {
    const answer = await compileShim()
    if (answer.status === 'absent') context.skip(answer.reason)
    else {
      const { shim } = answer
      add(() => {
        shim.remove()
        return Promise.resolve()
      })
      const fleet = await bootstrapped(5)
      const [stopped, evicting, late] = fleet.masters
      if (stopped === undefined || evicting === undefined || late === undefined) return
      await stopped.kill()
      await evicting.restart({ config: { 'maxmemory-policy': 'allkeys-lru' } })
      shim.clock(late.port).step(-3_600_000)

      const said = await run(fleet, 'doctor')
      expect(said.code).toBe(3) // Its clock is so far behind that clients do not count it.
      expect(said.out).toContain(`${hostOf(stopped.url)}: does not answer: `)
      expect(said.out).toContain('ECONNREFUSED')
      expect(said.out).toContain('fix: start it, or correct its address')
      expect(said.out).toContain(
        `${hostOf(evicting.url)}: may evict leases: maxmemory-policy is allkeys-lru`,
      )
      expect(said.out).toContain('fix: `CONFIG SET maxmemory-policy noeviction`')
      expect(said.out).toContain(`${hostOf(late.url)}: its clock is 1 h behind the others`)
      expect(said.out).toContain('fix: run chrony or ntpd on its machine')
      expect(shim.clock(late.port).looks).toBeGreaterThan(0)

      shim.clock(late.port).step(2 * 3_600_000)
      const { found: ahead } = await diagnose(fleet)
      expect(codes(ahead, hostOf(late.url))).toEqual(['clock'])
      expect(ahead).toMatchObject({ voting: 2, margin: -1 })
    }
  })

  it('just a quorum: exit code 1, because one more failure stops everything', async () => {
    const fleet = await bootstrapped(3)
    await fleet.masters[0]?.kill()
    const said = await run(fleet, 'doctor')
    expect(said.code).toBe(1)
    expect(said.out).toContain('just a quorum votes (2 of 3)')
  })

  it('masters that are down are told of together; each address stands in the JSON', async () => {
    const fleet = await bootstrapped(5)
    const down = fleet.masters.slice(0, 3)
    for (const master of down) await master.kill()
    const names = down.map(({ url }) => hostOf(url))
    const env = { ...fleetEnv(fleet.urls, NAMESPACE), COLUMNS: '400' }
    const said = await cli(['doctor'], { env })
    expect(said.out).toContain(`${names.join(', ')}: does not answer: connect ECONNREFUSED\n`)
    const { found } = await diagnose(fleet)
    const facts = found.findings.flatMap(({ code, fact }) => (code === 'unreachable' ? [fact] : []))
    expect(facts).toEqual(names.map((name) => `does not answer: connect ECONNREFUSED ${name}`))
  })

  it('a replica, the same server twice, a restart, another maxLeaseMs, a frozen server, a wrong password', async () => {
    const fleet = await bootstrapped(5)
    const [first, replica, restarted, frozen] = fleet.masters
    const locked = closing(await startServer({ name: 'locked', config: { requirepass: 'geheim' } }))
    await replica?.restart({ config: { replicaof: `127.0.0.1 ${first?.port ?? 0}` } })
    await restarted?.restart()
    await frozen?.freeze()
    const wrong = locked.url.replace('geheim', 'falsch')
    const urls = [...fleet.urls, `redis://localhost:${first?.port ?? 0}`, wrong]
    const limits = ['--timeout-ms', '3000', '--max-lease-ms', '20000']
    const { found, ...said } = await diagnose({ urls }, ...limits)
    const at = (index: number): readonly string[] => codes(found, hostOf(urls[index] ?? ''))
    expect(at(0)).toEqual(expect.arrayContaining(['max-lease-differs', 'fleet-size-differs']))
    expect(at(1)).toContain('replica')
    expect(at(2)).toContain('not-enrolled') // It came back without its memory.
    expect(at(3)).toEqual(['unreachable'])
    expect(at(5)).toContain('same-server')
    expect(at(6)).toEqual(['unreachable'])
    const refused = found.findings.find(({ where }) => where === hostOf(wrong))
    expect(refused).toMatchObject({ fix: 'correct the user and the password in its URL' })
    expect(said.out + said.err).not.toMatch(/geheim|falsch/)
    expect(said.code).toBe(3)
  })

  it('a master that was made a replica: nothing is said of what it copied', async () => {
    const fleet = await bootstrapped(3)
    const [first] = fleet.masters
    const [, replica = ''] = fleet.urls
    await ask(replica, (redis) => redis.replicaof('127.0.0.1', first?.port ?? 0))
    await ask(replica, hasCopied)
    const { found } = await diagnose(fleet)
    expect(codes(found, hostOf(replica))).toEqual(['replica'])
  })

  it('a master that takes no more clients says so, to a worker too', async () => {
    const fleet = await bootstrapped(1)
    const [url = ''] = fleet.urls
    await ask(url, async (redis) => {
      await redis.config('SET', 'maxclients', '1')
      const said = await run(fleet, 'doctor')
      expect(said.out).toContain('does not answer: ERR max number of clients reached')
      expect(said.out).toContain('fix: raise its `maxclients`')
      await using redlock = new Redlock({ masters: fleet.urls, logger: silentLogger })
      // A connection that the server resets at once may lose what it said.
      await until('it says why', async () => {
        const refused = await redlock.ready().then(String, String)
        return refused.includes('max number of clients reached')
      })
    })
  })

  it('a restart with durable memory, and the quarantine after one without', async () => {
    const fleet = await bootstrapped(3, { appendonly: 'yes', appendfsync: 'everysec' })
    const [first] = fleet.masters
    await first?.restart()
    const [url = ''] = fleet.urls
    expect(codes((await diagnose(fleet)).found, hostOf(url))).toEqual(['restarted'])
    await using redlock = openLock(fleet)
    await redlock.ready()
    expect(codes((await diagnose(fleet)).found, hostOf(url))).toEqual(['quarantined'])
  })

  it('a master that was copied: connected workers count it', async () => {
    const fleet = await bootstrapped(1)
    const { host, port } = fleet.masters[0] ?? { host: '', port: 0 }
    const replica = closing(await startServer({ config: { replicaof: `${host} ${port}` } }))
    await ask(replica.url, hasCopied)
    const { code, found } = await diagnose(fleet)
    expect(code).toBe(1)
    expect(codes(found, hostOf(fleet.urls[0] ?? ''))).toEqual(['copied'])
    expect(found).toMatchObject({ voting: 1 })
  })

  it('a queue that evicts, keeps nothing, and is a lock master', async () => {
    const fleet = await bootstrapped(1)
    const evicting = closing(await startServer({ config: { 'maxmemory-policy': 'volatile-lru' } }))
    const look = async (queue: string): Promise<readonly string[]> => {
      const { code, found } = await diagnose(fleet, '--queue-redis', queue)
      expect(code).toBe(1)
      return codes(found, `queue ${hostOf(queue)}`)
    }
    expect(await look(evicting.url)).toEqual(['evicts', 'persistence'])
    expect(await look(fleet.urls[0] ?? '')).toEqual(['persistence', 'same-server'])
  })

  it('keys that never expire: the first few of each master and their count, with the fix', async () => {
    const fleet = await bootstrapped(3)
    const [, url = ''] = fleet.urls
    const kinds = ['lease', 'fence', 'wait', 'next', 'tomb']
    await ask(url, (redis) =>
      redis.mset(
        ...kinds.flatMap((kind) => [`${NAMESPACE}:${kind}:x`, '1']),
        ...[`${NAMESPACE}:flag`, '1', `${NAMESPACE}:another`, '1', `${NAMESPACE}x:lease:x`, '1'],
      ),
    )
    await ask(url, (redis) => redis.set(`${NAMESPACE}:lease:y`, '1', 'PX', 60_000))
    const { code, found } = await diagnose(fleet)
    expect(code).toBe(1)
    const named = ['fence:x', 'flag', 'lease:x', 'next:x', 'tomb:x'].map(
      (key) => `${NAMESPACE}:${key}`,
    )
    expect(found).toMatchObject({ healthy: false, voting: 3 })
    expect(found.findings[0]).toEqual({
      ...{ severity: 'warning', code: 'no-expiry', where: hostOf(url) },
      fact: `keys that never expire: ${named.join(', ')}, and 1 more`,
      fix: expect.stringContaining('`bullmq-redlock release --yes NAME` for a lease') as string,
    })
    expect((await run(fleet, 'release', 'x', '--yes')).code).toBe(0)
    await ask(url, (redis) => redis.pexpire(`${NAMESPACE}:fence:x`, 60_000))
    const others = ['wait:x', 'next:x', 'tomb:x', 'flag'].map((key) => `${NAMESPACE}:${key}`)
    await ask(url, (redis) => redis.del(...others))
    expect((await run(fleet, 'doctor')).code).toBe(0)
  })

  it('a new fleet: says that it must be used or bootstrapped, and `bootstrap` does it', async () => {
    const fleet = await fleetOf(3)
    const fresh = await run(fleet, 'doctor')
    expect(fresh.code).toBe(3)
    expect(fresh.out).toContain('no worker has used it under namespace `doctor` yet')

    const unasked = await run(fleet, 'bootstrap')
    expect(unasked.code).toBe(2)
    expect(unasked.err).toContain('Re-run with --yes to confirm')
    const done = await run(fleet, 'bootstrap', '--yes', '--max-lease-ms', '4000')
    expect(done).toMatchObject({ code: 0, out: '3 of 3 masters vote, with maxLeaseMs 4000\n' })
    expect((await run(fleet, 'doctor')).code).toBe(0)
  })
})
