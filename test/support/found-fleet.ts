import { Redlock, silentLogger, type RedlockOptions } from '../../src/index.ts'

/** Ends the quarantine of masters that are new, so that the first clients need not wait for it. */
export async function foundFleet(options: Omit<RedlockOptions, 'logger'>): Promise<void> {
  await using founder = new Redlock({ ...options, logger: silentLogger })
  await founder.bootstrap({ newFleet: true })
}
