import {
  type BackendChoice,
  chooseBackend,
  NoBackendError,
  thisMachine,
} from '../src/testing/choose-backend.ts'
import type { Machine } from '../src/testing/choose-backend.ts'
import { findInstaller, type Installer } from './installer.ts'

export interface ProvisionOptions {
  /** Whether the system's package manager may install a server when nothing else can run one. */
  readonly install: boolean
  /** Takes what the user should read, line by line: what is run, and why. */
  readonly say: (line: string) => void
}

/** What {@link provisionServer} asks and does; tests put their own in its place. */
export interface ProvisionedMachine extends Machine {
  findInstaller(): Promise<Installer | undefined>
}

/**
 * Makes sure that servers can be started: a program on the PATH, else Docker, else, when allowed,
 * an installation. For the scripts of this repository; starting a fleet never installs anything.
 *
 * @throws Error when servers still cannot be started, saying what to install on which system
 */
export async function provisionServer(
  { install, say }: ProvisionOptions,
  machine: ProvisionedMachine = { ...thisMachine, wish: thisMachine.wish, findInstaller },
): Promise<BackendChoice> {
  try {
    return await chooseBackend(undefined, machine)
  } catch (error) {
    if (!install || !(error instanceof NoBackendError) || error.wish === 'containers') throw error
    const installer = await machine.findInstaller()
    if (installer === undefined) throw error
    for (const reason of error.reasons) say(`${capitalized(reason)}.`)
    say(`The tests and the demo start servers of their own. Running: ${installer.description}`)
    await installer.run()
  }
  const choice = await chooseBackend('processes', machine)
  if (choice.backend === 'processes')
    say(`Installed ${choice.binary.path} ${choice.binary.version}`)
  return choice
}

/** A path stays as it is. */
function capitalized(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}
