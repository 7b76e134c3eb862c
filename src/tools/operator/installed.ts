/** Packages that only some users need: they install them, and are told how. */

/** A package that is needed here is not installed. The message says what to run. */
export class NotInstalledError extends Error {
  override readonly name = 'NotInstalledError'

  /** @param packages as `npm install` takes them. */
  constructor(packages: string, options?: ErrorOptions) {
    super(`Not installed: ${packages}. Run: \`npm install ${packages}\``, options)
  }
}

/** As Node says it of `import` and of `require`. */
const MISSING: ReadonlySet<unknown> = new Set(['ERR_MODULE_NOT_FOUND', 'MODULE_NOT_FOUND'])

/** @throws NotInstalledError where what `load` imports is not there. */
export async function installed<Module>(
  packages: string,
  load: () => Promise<Module>,
): Promise<Module> {
  try {
    return await load()
  } catch (cause) {
    if (!MISSING.has((cause as { code?: unknown }).code)) throw cause
    throw new NotInstalledError(packages, { cause })
  }
}
