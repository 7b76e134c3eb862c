/**
 * docker-compose.yml for real: the image is built, the services run, a master is killed, and the
 * ledger comes out right.
 */
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { textOf, yamlOf } from '../deploy/files.ts'
import { until } from '../fixtures.ts'
import {
  docker,
  findCompose,
  findEngineObstacle,
  missingImages,
  output,
  run,
  type Said,
} from './docker.ts'

// An image is built, and 602 jobs are done by containers on a machine that may be busy.
vi.setConfig({ testTimeout: 600_000, hookTimeout: 1_200_000 })
const START_LIMIT_MS = 180_000

const { services } = yamlOf('docker-compose.yml') as {
  readonly services: Readonly<Record<string, { readonly image: string }>>
}
/** As much of the page's data as is looked at. */
interface State {
  readonly queues: readonly { readonly done: number }[] | null
}

const OWN_IMAGE = 'bullmq-redlock'
const MONITORING = ['prometheus', 'grafana']
const imagesOf = (names: readonly string[]): readonly string[] => [
  ...new Set(names.flatMap((name) => services[name]?.image ?? [])),
]

/** Why this machine cannot run the tests below, if it cannot. */
async function findObstacle(): Promise<string | undefined> {
  // It takes minutes and builds an image, which nobody expects of `npm test`.
  if (process.env['CONTAINERS'] !== 'yes') return '`npm run test:containers` is for that'
  const obstacle = await findEngineObstacle()
  if (obstacle !== undefined) return obstacle
  if ((await findCompose()) === undefined)
    return 'neither docker compose nor docker-compose is there'
  const bases = [...textOf('Dockerfile').matchAll(/^FROM (\S+)/gm)].map(([, image = '']) => image)
  const others = Object.keys(services).filter((name) => !MONITORING.includes(name))
  const needed = [...bases, ...imagesOf(others)].filter((image) => image !== OWN_IMAGE)
  const missing = await missingImages([...new Set(needed)])
  return missing.length === 0 ? undefined : `neither here nor to be pulled: ${missing.join(', ')}`
}

const obstacle = await findObstacle()
if (obstacle !== undefined) console.log(`skipped: docker-compose.yml for real, because ${obstacle}`)

describe.skipIf(obstacle !== undefined)('docker-compose.yml', () => {
  const project = `bullmq-redlock-test-${process.pid}`
  const ports = { PROMETHEUS_PORT: '0', GRAFANA_PORT: '0', DASHBOARD_PORT: '0' }
  let program: readonly [string, ...string[]]
  let monitoring: readonly string[] = []
  let startedAt = 0

  const compose = (...args: readonly string[]): Promise<Said> => {
    const [name, ...first] = program
    const profiles = monitoring.flatMap(() => ['--profile', 'monitoring']).slice(0, 2)
    return run(name, [...first, '--project-name', project, ...profiles, ...args], ports)
  }
  const doctor = (): Promise<Said> =>
    compose('run', '--rm', '-T', '--no-deps', 'worker', 'doctor', '--json')
  const containersOf = async (service: string): Promise<readonly string[]> => {
    const ids = await output(compose('ps', '--quiet', service))
    return ids.split('\n').filter((id) => id !== '')
  }
  const inspected = async (service: string, format: string): Promise<readonly string[]> => {
    const ids = await containersOf(service)
    return (await output(docker('inspect', '--format', format, ...ids))).trim().split('\n')
  }

  beforeAll(async () => {
    program = (await findCompose()) ?? ['docker-compose']
    const missing = await missingImages(imagesOf(MONITORING))
    monitoring = MONITORING.filter((name) => !missing.includes(services[name]?.image ?? ''))
    if (missing.length > 0) {
      console.log(`skipped: ${missing.join(', ')}, neither here nor to be pulled`)
    }
    const network = process.env['BUILD_NETWORK']
    const through = network === undefined ? [] : ['--network', network]
    await output(docker('build', ...through, '--tag', OWN_IMAGE, '.'))
    const wanted = ['worker', 'strikes', 'new-fleet', 'dashboard', ...monitoring]
    startedAt = performance.now()
    await output(compose('up', '--detach', '--no-build', '--scale', 'worker=2', ...wanted))
  })
  afterAll(async () => {
    await output(compose('down', '--volumes', '--remove-orphans', '--timeout', '5'))
    const label = `label=com.docker.compose.project=${project}`
    expect(await output(docker('ps', '--all', '--quiet', '--filter', label))).toBe('')
  })

  it('a page shows jobs that move soon after `up`', async () => {
    const address = (await output(compose('port', 'dashboard', '4280'))).trim()
    const login = { authorization: 'Bearer only-for-trying-it' }
    const done = async (): Promise<number> => {
      // A connection that the port took before its container listened may never be answered.
      const signal = AbortSignal.timeout(10_000)
      const asking = fetch(`http://${address}/state`, { headers: login, signal })
      const answer = await asking.catch(() => undefined)
      const state = answer?.ok === true ? ((await answer.json()) as State) : undefined
      return state?.queues?.reduce((sum, queue) => sum + queue.done, 0) ?? 0
    }
    await until('jobs are done', async () => (await done()) > 0, START_LIMIT_MS)
    console.log(`jobs move ${Math.round(performance.now() - startedAt)} ms after compose up`)
  })

  it('two workers become healthy, as a user without rights', async () => {
    await until(
      'both are healthy',
      async () => {
        const states = await inspected('worker', '{{.State.Health.Status}}')
        return states.length === 2 && states.every((state) => state === 'healthy')
      },
      START_LIMIT_MS,
    )
    expect(await inspected('worker', '{{.Config.User}}')).toEqual(['node', 'node'])
    const [worker = ''] = await containersOf('worker')
    expect(await output(docker('exec', worker, 'id', '-un'))).toBe('node\n')
  })

  it('with a master killed, every strike is posted once and in turn', async () => {
    const [master = ''] = await containersOf('lock-2')
    await output(docker('kill', master))
    const audit = await compose('run', '--rm', '-T', '--no-deps', 'audit')
    expect(audit.out).toContain(
      '602 of 602 jobs posted, 0 twice, 0 out of turn, 0 wrong balances, 0 stale writes refused',
    )
    expect(audit.code).toBe(0)

    const sick = await doctor()
    expect(sick.code).toBe(1)
    expect(sick.out).toContain('lock-2:6379')
    expect(sick.out).toContain('"unreachable"')
    await output(docker('start', master))
    // With every write on its disk it votes again at once; nothing is left to say about it.
    await until('doctor finds nothing', async () => (await doctor()).code === 0, START_LIMIT_MS)
  })

  it('Prometheus scrapes both workers and reads the rules', async ({ skip }) => {
    if (!monitoring.includes('prometheus')) skip('the image is neither here nor to be pulled')
    const ask = async (path: string): Promise<string> => {
      const code = `fetch('http://prometheus:9090/api/v1/${path}').then((answer) => answer.text()).then(console.log)`
      const node = ['run', '--rm', '-T', '--no-deps', '--entrypoint', 'node', 'worker']
      return output(compose(...node, '--eval', code))
    }
    await until(
      'both are scraped',
      async () => {
        const text = await ask(`query?query=${encodeURIComponent('sum(up)')}`)
        return text.includes(',"2"]')
      },
      START_LIMIT_MS,
    )
    const { data } = JSON.parse(await ask('rules')) as {
      data: { groups: readonly { rules: readonly { name: string; health: string }[] }[] }
    }
    const rules = data.groups.flatMap(({ rules: all }) => all)
    expect(rules.map(({ name }) => name)).toContain('RedlockNoQuorum')
    expect(new Set(rules.map(({ health }) => health))).toEqual(new Set(['ok']))
  })

  it('workers drain and end by themselves when they are stopped', async () => {
    const ids = await containersOf('worker')
    await output(compose('stop', 'worker'))
    const codes = await output(docker('inspect', '--format', '{{.State.ExitCode}}', ...ids))
    expect(codes.trim().split('\n')).toEqual(['0', '0'])
  })
})
