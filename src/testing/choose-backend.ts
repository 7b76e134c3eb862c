/** Which of the two ways to run servers this machine offers. Nothing is installed here. */
import { engineProblem } from './container-server.ts'
import { findServerBinary, type BinarySearch, type ServerBinary } from './find-binary.ts'
import type { Backend } from './test-server.ts'

export type BackendChoice =
  | { readonly backend: 'processes'; readonly binary: ServerBinary }
  | { readonly backend: 'containers' }

/** What is known about the machine; tests put their own in its place. */
export interface Machine {
  /** The value of `FLEET`, which overrides the automatic choice. */
  readonly wish: string | undefined
  findBinary(): Promise<BinarySearch>
  /** Why no container can be started; undefined where one can. */
  engineProblem(): Promise<string | undefined>
}

export const thisMachine: Machine = {
  get wish() {
    return process.env['FLEET']
  },
  findBinary: () => findServerBinary(),
  engineProblem,
}

/** A server program on the PATH, else a Docker engine. */
export async function chooseBackend(
  backend?: Backend,
  machine: Machine = thisMachine,
): Promise<BackendChoice> {
  const wish = backend ?? parseWish(machine.wish)
  const reasons: string[] = []
  if (wish !== 'containers') {
    const search = await machine.findBinary()
    if (search.status === 'found') return { backend: 'processes', binary: search.binary }
    reasons.push('no redis-server or valkey-server (7.0 or newer) on the PATH', ...search.rejected)
  }
  if (wish !== 'processes') {
    const problem = await machine.engineProblem()
    if (problem === undefined) return { backend: 'containers' }
    reasons.push(problem)
  }
  throw new NoBackendError(wish, reasons)
}

/** Nothing on this machine can run a Redis server. */
export class NoBackendError extends Error {
  /** What was asked for, if anything was. */
  readonly wish: Backend | undefined
  /** One reason for every way that was tried. */
  readonly reasons: readonly string[]

  constructor(wish: Backend | undefined, reasons: readonly string[]) {
    const wished = wish === undefined ? '' : ` as ${wish}`
    const docker = 'start Docker; the servers then run in containers'
    super(
      [
        `Redis servers cannot be started${wished}:`,
        ...reasons.map((reason) => `  - ${reason}`),
        ...(wish === 'containers' ? [`Please ${docker}.`] : ['Install one of these:', ...REMEDIES]),
        ...(wish === undefined ? [`Or ${docker}.`] : []),
      ].join('\n'),
    )
    this.name = 'NoBackendError'
    this.wish = wish
    this.reasons = reasons
  }
}

const REMEDIES = [
  '  Debian, Ubuntu 24.04 or newer:  apt-get install redis-server',
  '  Fedora, RHEL 10:                dnf install valkey',
  '  Alpine:                         apk add redis',
  '  Arch:                           pacman -S valkey',
  '  macOS:                          brew install redis',
]

function parseWish(wish: string | undefined): Backend | undefined {
  if (wish === undefined || wish === '') return undefined
  if (wish === 'processes' || wish === 'containers') return wish
  throw new TypeError(`Expected FLEET to be processes or containers, got \`${wish}\``)
}
