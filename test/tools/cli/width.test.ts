/** What the command line prints fits 80 columns, in a pipe too, and loses nothing. */
import { describe, expect, it } from 'vitest'
import { buildProgram } from '../../../src/tools/cli/program.ts'
import { granted, useFleet } from '../../fixtures.ts'
import { cli } from './run-cli.ts'

const fixture = useFleet({ masters: 5 })
const COLUMNS = { COLUMNS: '80' }

function tooLong(text: string): readonly string[] {
  return text.split('\n').filter((line) => line.length > 80)
}

describe('help', () => {
  const names = ['', ...buildProgram().commands.map((command) => command.name())]
  it.each(names)('of `%s`', async (name) => {
    const said = await cli([...(name === '' ? [] : [name]), '--help'], { env: COLUMNS })
    expect(said.code).toBe(0)
    expect(tooLong(said.out)).toEqual([])
  })

  it.each([
    ['rate', '--help'],
    ['rate', '-h'],
    ['help', 'rate'],
  ])('of a command that does not exist is an error: %s %s', async (...args) => {
    const said = await cli(args)
    expect(said.code).toBe(2)
    if (args[0] === 'rate') expect(said.err).toContain("unknown command 'rate'")
  })
})

it('leases, doctor, inspect, why, release: every line fits', async () => {
  const { fleet, namespace } = fixture
  const owner = 'worker-with-a-long-name-7f9c64b6d8-xk2lp.production.example.com:4711'
  const redlock = await fixture.redlock({ leaseMs: 20_000, maxLeaseMs: 20_000, owner })
  await granted(redlock, 'customer:42')
  const queue = `q-${namespace}`
  const locked = fixture.lockedQueue<{ customer: number }>(
    { resource: ({ customer }) => `customer:${customer}` },
    queue,
  )
  const jobs = [await locked.add('a', { customer: 42 }), await locked.add('b', { customer: 42 })]
  await locked.pauseResource('customer:42', { by: 'ann', reason: 'a migration of the ledger' })
  await fleet.masters[0]?.kill()
  const env = { ...fixture.env, ...COLUMNS }
  const commands: readonly (readonly string[])[] = [
    ['leases'],
    ['doctor'],
    ['inspect', 'customer:42'],
    ['why', queue, jobs[1]?.id ?? ''],
    ['limits', queue],
    ['release', 'customer:42', '--yes'],
  ]
  for (const args of commands) {
    const narrow = await cli(args, { env })
    expect(tooLong(narrow.out + narrow.err)).toEqual([])
    if (args[0] === 'leases') expect(narrow.out).toContain(`  holder ${owner}`)
    if (args[0] === 'why') {
      const command = `\`bullmq-redlock resume ${queue} customer:42\``
      expect(narrow.out).toContain(command) // On one line, so that it can be copied.
    }
  }
})
