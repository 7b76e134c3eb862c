/**
 * Apart from everything else, so that the package's type declarations do without testcontainers.
 */

import type * as Testcontainers from 'testcontainers'

/** Loaded only when containers are asked for: the package does not depend on it. */
export async function loadTestcontainers(): Promise<typeof Testcontainers> {
  try {
    return await import('testcontainers')
  } catch (cause) {
    throw new Error('the package testcontainers is not installed: npm install -D testcontainers', {
      cause,
    })
  }
}
