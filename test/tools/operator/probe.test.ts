/** An operator's connection: each question has its own deadline, and says why it has no answer. */
import { expect, it } from 'vitest'
import { Probe } from '../../../src/tools/operator/probe.ts'
import { until, useFleet } from '../../fixtures.ts'
import { assertNoLeaks } from '../../support/leaks.ts'

assertNoLeaks()
const fixture = useFleet({ masters: 1, queue: false })

/** Its server hangs after the first answer. */
async function frozen(timeoutMs: number) {
  const [server] = fixture.fleet.masters
  const probe = new Probe(server?.url ?? '', timeoutMs)
  fixture.defer(() => {
    probe.close()
    return Promise.resolve()
  })
  await probe.command('TIME')
  await server?.freeze()
  fixture.defer(() => server?.thaw() ?? Promise.resolve())
  return { probe, server }
}

it('every question to a server that hangs says so, also after another gave the connection up', async () => {
  const { probe } = await frozen(400)
  const asked: Promise<unknown>[] = []
  for (let nr = 0; nr < 12; nr++) {
    asked.push(probe.command('TIME').catch((error: unknown) => (error as Error).message))
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  expect(new Set(await Promise.all(asked))).toEqual(new Set(['no reply within 400 ms']))
})

it('a question right after one that was given up waits for its answer', async () => {
  const { probe, server } = await frozen(1_000)
  for (let times = 0; times < 2; times++) {
    await expect(probe.command('TIME')).rejects.toThrow('no reply within 1000 ms')
  }
  const asked = probe.command('TIME')
  await server?.thaw()
  await expect(asked).resolves.toHaveLength(2)
})

it('many questions at once to a server that hangs give the connection up once', async () => {
  const warnings: Error[] = []
  const warn = (warning: Error): unknown => warnings.push(warning)
  process.on('warning', warn)
  const [server] = fixture.fleet.masters
  const probe = new Probe(server?.url ?? '', 200)
  fixture.defer(() => {
    probe.close()
    process.off('warning', warn)
    return Promise.resolve()
  })
  for (let times = 0; times < 2; times++) {
    await probe.command('TIME')
    await server?.freeze()
    const asked = Array.from({ length: 20 }, () => probe.command('TIME'))
    const said = await Promise.allSettled(asked)
    expect(said.filter(({ status }) => status === 'fulfilled')).toEqual([])
    await server?.thaw()
    await until('it answers', () => probe.command('TIME').then(Boolean, () => false))
  }
  expect(warnings).toEqual([])
})
