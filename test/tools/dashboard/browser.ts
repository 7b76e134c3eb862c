/** A real Chromium, as people have it; where there is none the tests say so. */
import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'
import { chromium, type Browser } from 'playwright-core'

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable']

/** Undefined where none is installed. */
export function findChromium(): string | undefined {
  const places = (process.env['PATH'] ?? '').split(delimiter)
  const found = places.flatMap((place) => NAMES.map((name) => join(place, name))).find(isProgram)
  if (found === undefined) {
    console.log('skipped: the page in a browser, because there is none (apt-get install chromium)')
  }
  return found
}

export function launch(executablePath: string): Promise<Browser> {
  // Containers run as root and have a small /dev/shm.
  return chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-dev-shm-usage'] })
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false // Not here.
  }
}
