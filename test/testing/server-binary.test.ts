import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { chooseBackend, findServerBinary, type Machine } from '../../src/testing/choose-backend.ts'
import { provisionServer, type ProvisionedMachine } from '../../scripts/provision-server.ts'

const root = mkdtempSync(join(tmpdir(), 'server-binary-test-'))

afterAll(() => {
  rmSync(root, { recursive: true })
})

/** A directory with a program of that name that prints that text. */
function directoryWith(program: string, prints: string): string {
  const directory = mkdtempSync(join(root, 'bin-'))
  const file = join(directory, program)
  writeFileSync(file, `#!/bin/sh\necho '${prints}'\n`)
  chmodSync(file, 0o755)
  return directory
}

const OLD = directoryWith('redis-server', 'Redis server v=6.0.16 sha=00000000:0 bits=64')
const NEW = directoryWith('redis-server', 'Redis server v=7.0.15 sha=00000000:0 bits=64')
const VALKEY = directoryWith('valkey-server', 'Valkey server v=8.1.1 sha=00000000:0 bits=64')
const STRANGE = directoryWith('redis-server', 'hello')

describe('the search for a program', () => {
  it('takes redis-server from 7.0 on', async () => {
    expect(await findServerBinary(['/nowhere', NEW].join(delimiter))).toEqual({
      status: 'found',
      binary: { path: join(NEW, 'redis-server'), version: '7.0.15' },
    })
  })

  it('skips one that is too old or prints no version, and takes valkey-server', async () => {
    expect(await findServerBinary([OLD, STRANGE, VALKEY].join(delimiter))).toEqual({
      status: 'found',
      binary: { path: join(VALKEY, 'valkey-server'), version: '8.1.1' },
    })
  })

  it('says why it took none', async () => {
    expect(await findServerBinary([OLD, STRANGE].join(delimiter))).toEqual({
      status: 'missing',
      rejected: [
        `${OLD}/redis-server is 6.0.16, too old`,
        `${STRANGE}/redis-server tells no version`,
      ],
    })
  })

  it('does not take a directory for a program', async () => {
    const directory = mkdtempSync(join(root, 'bin-'))
    mkdirSync(join(directory, 'redis-server'))
    expect(await findServerBinary(directory)).toMatchObject({ status: 'missing' })
  })
})

function machine(searchPath: string, engine: 'ready' | 'absent', wish?: string): Machine {
  return {
    wish,
    findBinary: () => findServerBinary(searchPath),
    engineProblem: () =>
      Promise.resolve(engine === 'ready' ? undefined : 'no Docker engine answers'),
  }
}

describe('the choice', () => {
  it.each([
    [machine(NEW, 'ready'), 'processes'],
    [machine(NEW, 'absent'), 'processes'],
    [machine(OLD, 'ready'), 'containers'],
    [machine(NEW, 'ready', 'containers'), 'containers'],
    [machine(NEW, 'ready', 'processes'), 'processes'],
    [machine(NEW, 'ready', ''), 'processes'],
  ])('number %# is as documented', async (given, backend) => {
    expect(await chooseBackend(undefined, given)).toMatchObject({ backend })
  })

  it('prefers the caller to FLEET', async () => {
    const given = machine(NEW, 'ready', 'containers')
    expect(await chooseBackend('processes', given)).toMatchObject({ backend: 'processes' })
  })

  it('refuses a FLEET that it does not know', async () => {
    await expect(chooseBackend(undefined, machine(NEW, 'ready', 'docker'))).rejects.toThrow(
      new TypeError('Expected FLEET to be processes or containers, got `docker`'),
    )
  })

  it('says what is missing and what to install, system by system', async () => {
    const choice = chooseBackend(undefined, machine('', 'absent'))
    await expect(choice).rejects.toThrowErrorMatchingInlineSnapshot(`
      [NoBackendError: Redis servers cannot be started:
        - no redis-server or valkey-server (7.0 or newer) on the PATH
        - no Docker engine answers
      Install one of these:
        Debian, Ubuntu 24.04 or newer:  apt-get install redis-server
        Fedora, RHEL 10:                dnf install valkey
        Alpine:                         apk add redis
        Arch:                           pacman -S valkey
        macOS:                          brew install redis
      Or start Docker; the servers then run in containers.]
    `)
  })

  it('names no package with FLEET=containers', async () => {
    const choice = chooseBackend('containers', machine(NEW, 'absent'))
    await expect(choice).rejects.toThrowErrorMatchingInlineSnapshot(`
      [NoBackendError: Redis servers cannot be started as containers:
        - no Docker engine answers
      Please start Docker; the servers then run in containers.]
    `)
  })

  it('names no Docker with FLEET=processes', async () => {
    const choice = chooseBackend('processes', machine('', 'ready'))
    await expect(choice).rejects.toThrow(/apt-get install redis-server/)
    await expect(choice).rejects.not.toThrow(/Docker/)
  })
})

/** A machine on which the installer makes the search succeed. */
function installable(engine: 'ready' | 'absent', wish?: string): ProvisionedMachine & Ran {
  const state = { searchPath: OLD, runs: 0 }
  return {
    ...machine('', engine, wish),
    findBinary: () => findServerBinary(state.searchPath),
    findInstaller: () =>
      Promise.resolve({
        description: 'get it',
        run: () => {
          state.searchPath = NEW
          state.runs += 1
          return Promise.resolve()
        },
      }),
    runs: () => state.runs,
  }
}

interface Ran {
  runs(): number
}

describe('provisioning', () => {
  it('installs when allowed, and tells what and why before', async () => {
    const said: string[] = []
    const given = installable('absent')
    const options = { install: true, say: (line: string) => said.push(`${given.runs()} ${line}`) }
    const choice = await provisionServer(options, given)
    expect(choice).toMatchObject({ backend: 'processes', binary: { version: '7.0.15' } })
    expect(said).toEqual([
      '0 No redis-server or valkey-server (7.0 or newer) on the PATH.',
      `0 ${OLD}/redis-server is 6.0.16, too old.`,
      '0 No Docker engine answers.',
      '0 The tests and the demo start servers of their own. Running: get it',
      `1 Installed ${NEW}/redis-server 7.0.15`,
    ])
  })

  it.each([
    ['it is not allowed to', false, installable('absent')],
    ['containers were asked for', true, installable('absent', 'containers')],
  ])('installs nothing when %s', async (_, install, given) => {
    const said: string[] = []
    await expect(
      provisionServer({ install, say: (line) => said.push(line) }, given),
    ).rejects.toThrow('Redis servers cannot be started')
    expect(given.runs()).toBe(0)
    expect(said).toEqual([])
  })

  it('installs nothing when Docker answers', async () => {
    const given = installable('ready')
    const choice = await provisionServer({ install: true, say: () => undefined }, given)
    expect(choice).toEqual({ backend: 'containers' })
    expect(given.runs()).toBe(0)
  })

  it('leaves it to the user where there is no installer', async () => {
    const given = { ...installable('absent'), findInstaller: () => Promise.resolve(undefined) }
    await expect(provisionServer({ install: true, say: () => undefined }, given)).rejects.toThrow(
      /brew install redis/,
    )
  })
})
