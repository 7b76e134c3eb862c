/**
 * Every ioredis that `peerDependencies` admits, first and last of each minor version: batches leave
 * as commands of ours, and a lock lives its whole life. With an ioredis of an unknown version they
 * leave as ordinary commands, and it lives the same life.
 */
import { execFile } from 'node:child_process'
import { copyFile, cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { build, type Plugin } from 'esbuild'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { embeddedModule } from '../../../scripts/embed-files.ts'
import { isKnownVersion } from '../../../src/redlock/wire/batch-sender.ts'
import { startFleet, type Fleet } from '../../../src/testing/index.ts'
import { installIn } from '../../support/npm-ci.ts'

const ROOT = join(import.meta.dirname, '..', '..', '..')
const VERSIONS = join(import.meta.dirname, 'ioredis-versions')
const NAMES = Object.keys(
  (
    JSON.parse(await readFile(join(VERSIONS, 'package.json'), 'utf8')) as {
      readonly dependencies: Readonly<Record<string, string>>
    }
  ).dependencies,
)
const whyNot = await installIn(VERSIONS, 120_000)
if (whyNot !== undefined) console.log(`skipped: other versions of ioredis, because ${whyNot}`)

const LIFE = {
  granted: 200,
  extended: 200,
  taken: 'taken',
  holderSeen: true,
  handedOver: true,
  increasing: true,
}

/** As the build: modules that read files of `src` have their texts. */
const embedded: Plugin = {
  name: 'embedded',
  setup(bundle) {
    bundle.onLoad({ filter: /-files\.ts$/ }, ({ path }) => {
      const contents = embeddedModule(path)
      return contents === undefined ? undefined : { contents, loader: 'js' }
    })
  },
}

let fleet: Fleet
let compiled: string

beforeAll(async () => {
  fleet = await startFleet({ masters: 3, queue: false })
  compiled = await mkdtemp(join(tmpdir(), 'redlock-ioredis-'))
  await symlink(join(ROOT, 'node_modules'), join(compiled, 'node_modules'))
  await build({
    entryPoints: [join(import.meta.dirname, 'ioredis-versions-child.ts')],
    outfile: join(compiled, 'child.mjs'),
    ...{ bundle: true, packages: 'external', platform: 'node', format: 'esm' },
    plugins: [embedded],
  })
})

afterAll(async () => {
  await fleet.close()
  await rm(compiled, { recursive: true, force: true })
})

/** Runs the child, compiled, where `ioredis` is `directory`, told as `version`. */
async function lifeOn(directory: string, version?: string): Promise<unknown> {
  const place = await mkdtemp(join(compiled, 'on-')) // All other packages are found above it.
  try {
    await copyFile(join(compiled, 'child.mjs'), join(place, 'child.mjs'))
    const packages = join(place, 'node_modules')
    await mkdir(packages)
    if (version === undefined) await symlink(directory, join(packages, 'ioredis'))
    else {
      // Its own dependencies are those of the installed one.
      await cp(directory, join(packages, 'ioredis'), { recursive: true, dereference: true })
      const file = join(packages, 'ioredis', 'package.json')
      const told = JSON.parse(await readFile(file, 'utf8')) as object
      await writeFile(file, JSON.stringify({ ...told, version }))
    }
    const args = ['child.mjs', ...fleet.urls]
    const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: place })
    // ioredis 5.4.0 prints lines of its own.
    return JSON.parse(stdout.split('\n').find((line) => line.startsWith('{')) ?? '')
  } finally {
    await rm(place, { recursive: true, force: true })
  }
}

it('knows the versions of peerDependencies, and no others', () => {
  for (const name of NAMES) expect(isKnownVersion(name.replace('ioredis-', ''))).toBe(true)
  for (const version of ['5.3.2', '4.28.5', '7.0.0', '', 'latest']) {
    expect(isKnownVersion(version)).toBe(false)
  }
})

describe.skipIf(whyNot !== undefined).concurrent('a lock lives its whole life on', () => {
  it.each(NAMES)('%s', async (name) => {
    const directory = join(VERSIONS, 'node_modules', name)
    expect(await lifeOn(directory)).toEqual({ ownCommands: true, ...LIFE })
  })
})

it('a lock lives its whole life on an unknown version, by ordinary commands', async () => {
  const directory = join(ROOT, 'node_modules', 'ioredis')
  expect(await lifeOn(directory, '7.0.0')).toEqual({ ownCommands: false, ...LIFE })
})
