/** The program as it is published: compiled, found through `bin`, run without tsx. */
import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { useFleet } from '../../fixtures.ts'
import { compileInto } from '../../support/compiled.ts'
import { fleetEnv } from './run-cli.ts'

const ROOT = join(import.meta.dirname, '..', '..', '..')
const run = promisify(execFile)
const fixture = useFleet({ masters: 1, queue: false })
let installed = ''
let bin = ''

beforeAll(async () => {
  // Below node_modules, so that the dependencies are found from there.
  const cache = join(ROOT, 'node_modules', '.cache')
  await mkdir(cache, { recursive: true })
  installed = await mkdtemp(join(cache, 'bullmq-redlock-'))
  await cp(join(ROOT, 'package.json'), join(installed, 'package.json'))
  await compileInto(installed)
  const manifest = await readFile(join(installed, 'package.json'), 'utf8')
  const { bin: bins } = JSON.parse(manifest) as { bin: Record<string, string> }
  bin = join(installed, bins['bullmq-redlock'] ?? '')
}, 240_000)

afterAll(() => rm(installed, { recursive: true, force: true }))

it('runs from dist, and is a program', async () => {
  expect((await readFile(bin, 'utf8')).startsWith('#!/usr/bin/env node\n')).toBe(true)
  await fixture.redlock()
  const env = { ...process.env, ...fleetEnv(fixture.fleet.urls, fixture.namespace) }
  const doctor = await run(process.execPath, [bin, 'doctor', '--json'], { env })
  expect(JSON.parse(doctor.stdout)).toMatchObject({ healthy: true, voting: 1, masters: [{}] })
  const version = await run(process.execPath, [bin, '--version'])
  expect(version.stdout).toMatch(/^\d+\.\d+\.\d+\n$/)
})
