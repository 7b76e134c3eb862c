/**
 * docker-compose.yml and the Dockerfile: what belongs together does, and Docker's own programs
 * accept it.
 */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { findProgram } from '../../scripts/find-program.ts'
import { ROOT, textOf, yamlOf } from './files.ts'

interface Service {
  readonly image?: string
  readonly command?: string | readonly string[]
  readonly environment?: Readonly<Record<string, string>>
  readonly depends_on?: Readonly<Record<string, unknown>>
  readonly profiles?: readonly string[]
  readonly ports?: readonly string[]
  readonly volumes?: readonly string[]
  readonly stop_grace_period?: string
}

const { services, volumes } = yamlOf('docker-compose.yml') as {
  readonly services: Readonly<Record<string, Service>>
  readonly volumes: Readonly<Record<string, unknown>>
}
const masters = Object.keys(services).filter((name) => name.startsWith('lock-'))
const dockerfile = textOf('Dockerfile')

describe('docker-compose.yml', () => {
  it('workers and programs know every master, and only those', () => {
    const urls = masters.map((name) => `redis://${name}:6379`).join(',')
    expect(masters).toHaveLength(5)
    expect(services['worker']?.environment?.['BULLMQ_REDLOCK_MASTERS']).toBe(urls)
    for (const program of ['strikes', 'audit']) {
      expect(services[program]?.environment?.['BULLMQ_REDLOCK_MASTERS']).toBe(urls)
    }
  })

  it('masters store every write, evict nothing, and each has its own disk', () => {
    for (const name of masters) {
      const { command = '', volumes: mounted = [] } = services[name] ?? {}
      expect(command).toContain('--appendonly yes --appendfsync always')
      expect(command).toContain('--maxmemory-policy noeviction')
      expect(mounted).toEqual([`${name}:/data`])
    }
  })

  it('every dependency, volume and file exists', () => {
    for (const { depends_on = {}, volumes: mounted = [] } of Object.values(services)) {
      for (const name of Object.keys(depends_on)) expect(services).toHaveProperty(name)
      for (const [source = ''] of mounted.map((volume) => volume.split(':'))) {
        if (source.startsWith('.')) expect(existsSync(join(ROOT, source)), source).toBe(true)
        else expect(volumes).toHaveProperty(source)
      }
    }
  })

  it('Prometheus scrapes the port that the workers serve and the image checks', () => {
    const { command = [] } = services['worker'] ?? {}
    const port = Number(command[command.indexOf('--health-port') + 1])
    const { scrape_configs } = yamlOf('deploy/prometheus/prometheus.yml') as {
      scrape_configs: readonly {
        dns_sd_configs: readonly { names: readonly string[]; port: number }[]
      }[]
    }
    expect(scrape_configs[0]?.dns_sd_configs[0]).toMatchObject({ names: ['worker'], port })
    expect(dockerfile).toContain(`EXPOSE ${port}`)
    expect(dockerfile).toContain(`http://127.0.0.1:${port}/healthz`)
  })

  it('a worker may drain before Docker kills it', () => {
    const { command = [], stop_grace_period = '' } = services['worker'] ?? {}
    const drainMs = Number(command[command.indexOf('--drain-ms') + 1])
    expect(Number.parseInt(stop_grace_period, 10) * 1_000).toBeGreaterThan(drainMs + 10_000)
  })

  it('monitoring is a profile, and is published on this machine alone', () => {
    const monitoring = Object.entries(services).filter(([, { profiles = [] }]) =>
      profiles.includes('monitoring'),
    )
    expect(monitoring.map(([name]) => name)).toEqual(['prometheus', 'grafana'])
    for (const { ports = [] } of Object.values(services)) {
      for (const port of ports) expect(port).toMatch(/^127\.0\.0\.1:\$\{[A-Z]+_PORT:-\d+\}:\d+$/)
    }
  })

  it('names a version of every image that is not built here', () => {
    for (const { image = '' } of Object.values(services)) {
      expect(image).toMatch(/^(bullmq-redlock|[\w/]+:v?\d[\w.-]*)$/)
    }
  })

  const compose = findProgram('docker-compose')
  if (compose === undefined) {
    console.log('skipped: docker-compose config, because it is not installed')
  }
  it.skipIf(compose === undefined).each([[], ['monitoring'], ['audit']])(
    'is accepted by docker-compose %s',
    async (...profiles: readonly string[]) => {
      const args = profiles.flatMap((profile) => ['--profile', profile])
      const run = promisify(execFile)
      const { stdout } = await run(compose ?? '', [...args, 'config', '--services'], { cwd: ROOT })
      for (const profile of profiles) {
        const inProfile = Object.entries(services).filter(([, service]) =>
          service.profiles?.includes(profile),
        )
        for (const [name] of inProfile) expect(stdout.split('\n')).toContain(name)
      }
    },
  )
})

describe('the Dockerfile', () => {
  const stages = dockerfile.split(/^FROM /m).slice(1)
  const last = stages.at(-1) ?? ''

  it('ends in a stage that builds nothing and runs as a user without rights', () => {
    expect(stages.length).toBeGreaterThan(1)
    expect(last).not.toMatch(/^RUN /m)
    expect(last.indexOf('USER node')).toBeLessThan(last.indexOf('ENTRYPOINT'))
    expect(last).toMatch(/^USER node$/m)
    expect(last).toMatch(/^HEALTHCHECK /m)
  })

  it('starts the compiled program', () => {
    const started = [...last.matchAll(/"((?:src|workers)\/[\w/-]+)\.js"/g)]
    expect(started.length).toBe(2)
    for (const [, path = ''] of started) expect(existsSync(join(ROOT, `${path}.ts`))).toBe(true)
  })

  it('gets only the files that it copies', () => {
    const allowed = textOf('.dockerignore')
      .split('\n')
      .flatMap((line) => (line.startsWith('!') ? line.slice(1) : []))
    const copied = [...dockerfile.matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap(
      ([, sources = '']) => sources.split(' '),
    )
    expect([...new Set(copied)].sort()).toEqual(allowed.sort())
  })
})
