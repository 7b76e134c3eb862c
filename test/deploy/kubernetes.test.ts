/** The Kubernetes manifests: they fit Kubernetes' schemas, and what one names another has. */
import { existsSync, readdirSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { parse } from 'yaml'
import { beforeAll, describe, expect, it, vi } from 'vitest'
import { installIn } from '../support/npm-ci.ts'
import { ROOT, textOf, yamlOf, yamlsOf } from './files.ts'

const INSTALL_LIMIT_MS = 240_000
vi.setConfig({ hookTimeout: INSTALL_LIMIT_MS })

const DIRECTORY = 'deploy/kubernetes'
const SCHEMAS = join(import.meta.dirname, 'kubernetes-schemas')
const KEDA = join(SCHEMAS, 'node_modules/@kubernetes-models/keda/keda.sh/v1alpha1/index.js')

type Labels = Readonly<Record<string, string>>
interface Probe {
  readonly httpGet?: { readonly path: string; readonly port: string }
}
interface Container {
  readonly image: string
  readonly command?: readonly string[]
  readonly args?: readonly string[]
  readonly env?: readonly { readonly name: string; readonly value?: string }[]
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[]
  readonly readinessProbe: Probe
  readonly livenessProbe: Probe
  readonly securityContext: Readonly<Record<string, unknown>>
  readonly resources: { readonly requests: Labels; readonly limits: Labels }
  readonly volumeMounts?: readonly { readonly name: string; readonly mountPath: string }[]
}
interface PodSpec {
  readonly terminationGracePeriodSeconds: number
  readonly automountServiceAccountToken: boolean
  readonly securityContext: Readonly<Record<string, unknown>>
  readonly containers: readonly Container[]
  readonly volumes?: readonly { readonly name: string }[]
  readonly affinity?: {
    readonly podAntiAffinity: {
      readonly requiredDuringSchedulingIgnoredDuringExecution: readonly {
        readonly topologyKey: string
        readonly labelSelector: { readonly matchLabels: Labels }
      }[]
    }
  }
}
interface Manifest {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: { readonly name: string; readonly namespace?: string }
  readonly spec: {
    readonly serviceName?: string
    readonly clusterIP?: string
    readonly replicas?: number
    readonly minReadySeconds?: number
    readonly selector?: Labels | { readonly matchLabels: Labels }
    readonly ports?: readonly { readonly port: number; readonly targetPort: string }[]
    readonly template?: {
      readonly metadata: { readonly labels: Labels; readonly annotations?: Labels }
      readonly spec: PodSpec
    }
    readonly volumeClaimTemplates?: readonly { readonly metadata: { readonly name: string } }[]
    readonly scaleTargetRef?: { readonly kind: string; readonly name: string }
    readonly maxUnavailable?: number
    readonly podSelector?: Selector
    readonly ingress?: readonly {
      readonly from: readonly { readonly podSelector: Selector }[]
      readonly ports: readonly { readonly port: string }[]
    }[]
  }
}
interface Selector {
  readonly matchLabels?: Labels
  readonly matchExpressions?: readonly {
    readonly key: string
    readonly values: readonly string[]
  }[]
}

const manifests = readdirSync(join(ROOT, DIRECTORY))
  .filter((file) => file.endsWith('.yaml'))
  .flatMap((file) => yamlsOf(`${DIRECTORY}/${file}`) as readonly Manifest[])
/** The autoscalers of docs/monitoring.md, which wait for a Prometheus. */
const documented = textOf('docs/monitoring.md')
  .split('```yaml\n')
  .slice(1)
  .map((text) => parse(text.split('```')[0] ?? '') as Manifest)
const cases = [...manifests, ...documented].map((manifest) => ({
  manifest,
  what: `${manifest.kind} ${manifest.metadata.name}`,
}))

function find(kind: string, name: string): Manifest {
  const found = manifests.find((one) => one.kind === kind && one.metadata.name === name)
  if (found === undefined) throw new Error(`there is no ${kind} ${name}`)
  return found
}
const workloads = manifests.filter(({ spec }) => spec.template !== undefined)
const podOf = ({ spec, metadata }: Manifest): PodSpec => {
  if (spec.template === undefined) throw new Error(`${metadata.name} has no pods`)
  return spec.template.spec
}
const containerOf = (manifest: Manifest): Container => {
  const [container] = podOf(manifest).containers
  if (container === undefined) throw new Error(`${manifest.metadata.name} has no container`)
  return container
}
const option = (container: Container, name: string): string | undefined => {
  const words = [...(container.command ?? []), ...(container.args ?? [])]
  return words[words.indexOf(name) + 1]
}

describe('names in manifests', () => {
  it('the documented autoscalers scale a Deployment that exists', () => {
    expect(documented.map(({ kind }) => kind)).toEqual(['ScaledObject', 'HorizontalPodAutoscaler'])
    for (const { spec } of documented) find('Deployment', spec.scaleTargetRef?.name ?? '')
  })

  it('Services select pods, and lead to ports that they have', () => {
    for (const { spec, metadata } of manifests.filter(({ kind }) => kind === 'Service')) {
      const [target] = workloads.filter(
        (one) =>
          JSON.stringify(one.spec.template?.metadata.labels) === JSON.stringify(spec.selector),
      )
      if (target === undefined) throw new Error(`nobody answers for ${metadata.name}`)
      expect(target.spec.serviceName).toBe(metadata.name)
      for (const { port, targetPort } of spec.ports ?? []) {
        expect(containerOf(target).ports).toContainEqual({ name: targetPort, containerPort: port })
      }
    }
  })

  it('selectors, budgets and the autoscaler mean pods that exist', () => {
    for (const workload of workloads) {
      const labels = workload.spec.template?.metadata.labels
      expect(workload.spec.selector).toEqual({ matchLabels: labels })
    }
    for (const { spec } of manifests.filter(({ kind }) => kind === 'PodDisruptionBudget')) {
      expect(workloads.map((one) => one.spec.selector)).toContainEqual(spec.selector)
      expect(spec.maxUnavailable).toBe(1)
    }
    const { scaleTargetRef } = find('HorizontalPodAutoscaler', 'worker').spec
    const target = find(scaleTargetRef?.kind ?? '', scaleTargetRef?.name ?? '')
    // Each apply would set it back otherwise.
    expect(target.spec.replicas).toBeUndefined()
  })

  it('every mount has its volume', () => {
    for (const workload of workloads) {
      const claims = workload.spec.volumeClaimTemplates?.map(({ metadata }) => metadata.name) ?? []
      const volumes = [...claims, ...(podOf(workload).volumes ?? []).map(({ name }) => name)]
      for (const { name } of containerOf(workload).volumeMounts ?? []) {
        expect(volumes).toContain(name)
      }
    }
  })

  it('network policies name pods and ports that exist, and let workers to the servers', () => {
    const names = workloads.map(({ metadata }) => metadata.name)
    const known = [...names, 'operator', 'prometheus'] // These two are not ours to start.
    const named = ({ matchLabels = {}, matchExpressions = [] }: Selector): readonly string[] => [
      ...Object.values(matchLabels),
      ...matchExpressions.flatMap(({ values }) => values),
    ]
    const ports = workloads.flatMap((one) => containerOf(one).ports.map(({ name }) => name))
    const policies = manifests.filter(({ kind }) => kind === 'NetworkPolicy')
    for (const { spec } of policies) {
      for (const name of named(spec.podSelector ?? {})) expect(known).toContain(name)
      for (const { from, ports: opened } of spec.ingress ?? []) {
        for (const { podSelector } of from) {
          for (const name of named(podSelector)) expect(known).toContain(name)
        }
        for (const { port } of opened) expect(ports).toContain(port)
      }
    }
    const redis = find('NetworkPolicy', 'redis').spec
    expect(named(redis.podSelector ?? {})).toEqual(['lock', 'queue'])
    expect(named(redis.ingress?.[0]?.from[0]?.podSelector ?? {})).toContain('worker')
  })

  it('only what deploy/README.md says how to make is taken from elsewhere', () => {
    const text = readdirSync(join(ROOT, DIRECTORY)).map((file) => textOf(`${DIRECTORY}/${file}`))
    const named = text
      .join('\n')
      .matchAll(/(secretName|configMap: \{ name|secretKeyRef: \{ name): ([\w-]+)/g)
    const readme = textOf('deploy/README.md')
    for (const [, kind = '', name = ''] of named) {
      const noun = kind.startsWith('configMap') ? 'configmap' : 'secret generic'
      expect(readme).toContain(`kubectl create ${noun} ${name} `)
    }
  })
})

describe('lock masters', () => {
  const lock = find('StatefulSet', 'lock')

  it('each has its own node and its own disk', () => {
    const [rule] =
      podOf(lock).affinity?.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution ?? []
    expect(rule?.topologyKey).toBe('kubernetes.io/hostname')
    expect(rule?.labelSelector).toEqual(lock.spec.selector)
    expect(lock.spec.volumeClaimTemplates).toHaveLength(1)
  })

  it('the workers know each by its own name, and no others', () => {
    expect(find('Service', 'lock').spec.clusterIP).toBe('None')
    const { env = [] } = containerOf(find('Deployment', 'worker'))
    const urls = env.find(({ name }) => name === 'BULLMQ_REDLOCK_MASTERS')?.value?.split(',')
    const names = Array.from(
      { length: lock.spec.replicas ?? 0 },
      (_, index) => `lock-${index}.lock`,
    )
    expect(urls?.map((url) => new URL(url).host)).toEqual(names.map((name) => `${name}:6379`))
    expect(new Set(urls?.map((url) => new URL(url).username))).toEqual(new Set(['worker']))
    expect(names).toHaveLength(5)
  })

  it('run the configuration of deploy/redis, at the path of its users', () => {
    const { command = [], volumeMounts = [] } = containerOf(lock)
    const mounts = volumeMounts.map(({ mountPath }) => mountPath)
    expect(mounts).toContain(command[1])
    const [, users = ''] = /^aclfile (\S+)$/m.exec(textOf('deploy/redis/lock-master.conf')) ?? []
    expect(mounts).toContain(users)
    const compose = yamlOf('docker-compose.yml') as { services: Record<string, { image: string }> }
    expect(containerOf(lock).image).toBe(compose.services['lock-1']?.image)
  })
})

describe('workers', () => {
  const worker = find('Deployment', 'worker')
  const container = containerOf(worker)

  it('are probed on the port where they answer', () => {
    const port = Number(option(container, '--health-port'))
    expect(container.ports).toEqual([{ name: 'health', containerPort: port }])
    expect(container.readinessProbe.httpGet).toEqual({ path: '/readyz', port: 'health' })
    expect(container.livenessProbe.httpGet).toEqual({ path: '/healthz', port: 'health' })
    const { annotations = {} } = worker.spec.template?.metadata ?? {}
    expect(annotations['prometheus.io/port']).toBe(`${port}`)
  })

  it('may drain before they are killed', () => {
    const drainMs = Number(option(container, '--drain-ms'))
    const { terminationGracePeriodSeconds: grace } = podOf(worker)
    expect(grace * 1_000).toBeGreaterThanOrEqual(drainMs + 10_000 + 5_000)
  })

  it('start a module that the image has', () => {
    const path = (container.args?.[1] ?? '').replace(/\.js$/, '.ts')
    expect(container.args?.[0]).toBe('work')
    expect(existsSync(join(ROOT, path))).toBe(true)
  })
})

it.each(workloads.map((workload) => ({ workload, name: workload.metadata.name })))(
  '$name has no rights and a limit on its memory alone',
  ({ workload }) => {
    const pod = podOf(workload)
    expect(pod.automountServiceAccountToken).toBe(false)
    expect(pod.securityContext).toMatchObject({
      ...{ runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
    })
    const { securityContext, resources, image } = containerOf(workload)
    expect(securityContext).toEqual({
      ...{ allowPrivilegeEscalation: false, readOnlyRootFilesystem: true },
      capabilities: { drop: ['ALL'] },
    })
    expect(Object.keys(resources.requests).sort()).toEqual(['cpu', 'memory'])
    expect(Object.keys(resources.limits)).toEqual(['memory'])
    expect(image).toMatch(/:v?\d/)
  },
)

type Model = new (data: unknown) => { validate(): void }

describe("Kubernetes' schemas", () => {
  let obstacle: string | undefined
  let keda: Readonly<Record<string, Model>> = {}

  beforeAll(async () => {
    obstacle = await installIn(SCHEMAS, INSTALL_LIMIT_MS - 10_000)
    if (obstacle !== undefined) console.log(`skipped: Kubernetes' schemas, because ${obstacle}`)
    else keda = (await import(KEDA)) as typeof keda
  })

  function problemOf(manifest: Manifest): string | undefined {
    const path = `kubernetes-models/${manifest.apiVersion}`
    const models = manifest.apiVersion.startsWith('keda.sh/')
      ? keda
      : (createRequire(join(SCHEMAS, 'package.json'))(path) as Readonly<Record<string, Model>>)
    const model = models[manifest.kind]
    if (model === undefined) return `${manifest.apiVersion} has no ${manifest.kind}`
    try {
      new model(manifest).validate()
      return undefined
    } catch (error) {
      return String(error)
    }
  }

  it.for(cases)('accept $what', ({ manifest }, { skip }) => {
    if (obstacle !== undefined) skip(obstacle)
    expect(problemOf(manifest)).toBeUndefined()
  })

  // A schema says nothing of a field that it does not know, so a misspelt one would pass: a value
  // of a kind that no field has must be refused, wherever it stands.
  it.for(cases)('know every field of $what', ({ manifest }, { skip }) => {
    if (obstacle !== undefined) skip(obstacle)
    const unknown: string[] = []
    const visit = (node: unknown, path: string, replace: (value: unknown) => void): void => {
      if (typeof node === 'object' && node !== null) {
        for (const key of Object.keys(node)) {
          const parent = node as Record<string, unknown>
          visit(parent[key], `${path}.${key}`, (value) => {
            parent[key] = value
          })
        }
        return
      }
      replace([[{}]])
      if (problemOf(copy) === undefined) unknown.push(path)
      replace(node)
    }
    const copy = structuredClone(manifest)
    // These two say which schema it is.
    for (const part of [copy.metadata, copy.spec]) visit(part, '', () => undefined)
    expect(unknown).toEqual([])
  })
})
