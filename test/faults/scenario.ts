/**
 * What the files of the fault matrix share: a fleet and clients for the file, and how much of it to
 * run.
 */
import { afterAll, afterEach, beforeAll, vi } from 'vitest'
import { startFleet, type Fleet, type FleetOptions } from '../../src/testing/index.ts'
import { watchLeaks } from '../support/leaks.ts'
import { undisturbed } from '../support/undisturbed.ts'
import { ClientProcesses } from './client-processes.ts'
import { Harness, type HarnessOptions } from './harness.ts'

/** `FAULTS=all` runs every scenario with this many seeds, and the long ones too. */
export const ALL: boolean = process.env['FAULTS'] === 'all'

/** Fixed, so that a failure is told by its seed. */
export const SEEDS: readonly number[] = ALL ? [11, 23, 37, 41, 59] : [11]

export interface Stage {
  readonly fleet: Fleet
  readonly clients: ClientProcesses
  /** Starts a scenario; it is closed after the test. */
  harness(options: HarnessOptions): Promise<Harness>
  /** Runs a case again that failed while the machine stood still: {@link undisturbed}. */
  undisturbed<T>(run: () => Promise<T>): Promise<T>
}

export interface StageOptions extends FleetOptions {
  /** How many processes work on the fleet. @defaultValue `2` */
  readonly members?: number
  /**
   * Whether proxies reset connections that are already ending, of which Node leaks a socket now and
   * then. The members' processes must end by themselves in any case, and they are what uses the
   * library.
   *
   * @defaultValue `false`
   */
  readonly leaky?: boolean
  /** Added to their environment. */
  readonly memberEnv?: NodeJS.ProcessEnv
}

export function useStage(options: StageOptions = {}): Stage {
  const { members = 2, memberEnv, leaky = false, ...fleetOptions } = options
  // Each step of a scenario has a limit of its own.
  vi.setConfig({ testTimeout: 300_000 })
  const leaks = leaky ? undefined : watchLeaks()
  let fleet: Fleet | undefined
  let clients: ClientProcesses | undefined
  let harness: Harness | undefined
  beforeAll(async () => {
    ;[fleet, clients] = await Promise.all([
      startFleet(fleetOptions),
      ClientProcesses.start(members, memberEnv),
    ])
  })
  const clear = async (): Promise<void> => {
    for (const server of fleet?.masters ?? []) if (!server.running) await server.restart()
    await harness?.[Symbol.asyncDispose]()
    harness = undefined
  }
  afterEach(clear)
  afterAll(async () => {
    const left = await clients?.leave()
    await fleet?.close()
    if (left !== undefined && left.length > 0) throw new Error(left.join('\n'))
    await leaks?.assertNone()
  })
  return {
    get fleet() {
      return present(fleet)
    },
    get clients() {
      return present(clients)
    },
    async harness(harnessOptions) {
      harness = await Harness.start(present(fleet), present(clients), harnessOptions)
      return harness
    },
    undisturbed: (run) => undisturbed({ bystander: present(fleet).queue, clear }, run),
  }
}

function present<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('The stage is set in beforeAll')
  return value
}
