/**
 * Worker modules: what a module exports as `default`, `worker` or `workers` is a LockedWorker, a
 * list of them, or a function that makes them from what the command line knows.
 */
import { statSync } from 'node:fs'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { LockedWorker } from '../../../worker/locked-worker.ts'
import type { WorkerContext } from '../../../worker/worker-context.ts'
import { messageOf } from '../../../message-of.ts'
import { UsageError } from '../exit-code.ts'

/** As much as is used: the module may have loaded another copy of the class. */
export type RunnableWorker = Pick<
  LockedWorker,
  'name' | 'drain' | 'isRunning' | 'isStarting' | 'isPaused' | 'run' | 'on'
> &
  Connected &
  Partial<Pick<LockedWorker, 'inspect'>> & { readonly shards?: readonly Connected[] }

type Connected = Partial<Pick<LockedWorker, 'getBackend'>>

const NAMES = ['default', 'worker', 'workers'] as const

/** @throws Error that names the module and what is wrong with it. */
export async function loadWorkers(
  path: string,
  context: WorkerContext,
): Promise<readonly RunnableWorker[]> {
  const { href } = pathToFileURL(resolve(path))
  const module = await named(path, () => import(href) as Promise<Record<string, unknown>>)
  const exported = exportedBy(module)
  if (exported === undefined) {
    throw new UsageError(
      `${path} exports none of ${NAMES.map((name) => `\`${name}\``).join(', ')}: export a LockedWorker, or a function that returns one`,
    )
  }
  const made: unknown =
    typeof exported === 'function'
      ? await named(path, () => (exported as (context: WorkerContext) => unknown)(context))
      : exported
  const workers: readonly unknown[] = Array.isArray(made) ? made : [made]
  if (workers.length > 0 && workers.every(isWorker)) return workers
  throw new UsageError(
    `${path}: expected a LockedWorker, a list of them, or a function that returns one of these`,
  )
}

/** Of a module of CommonJS, `default` is all that it exports. */
function exportedBy(module: Readonly<Record<string, unknown>>): unknown {
  const value = NAMES.map((name) => module[name]).find((each) => each !== undefined)
  const isOther = typeof value !== 'object' || value === null || value === module
  if (isOther || Array.isArray(value) || isWorker(value)) return value
  return exportedBy(value as Readonly<Record<string, unknown>>)
}

/** Node 20 reads no TypeScript; newer ones read what needs no more than leaving out the types. */
const IS_TYPESCRIPT = /^ERR_UNKNOWN_FILE_EXTENSION$|^ERR_UNSUPPORTED_.*TYPE/

/** Of a path, which may be one of a folder. */
const NOT_FOUND = /^ERR_(MODULE_NOT_FOUND|UNSUPPORTED_DIR_IMPORT)$/

/** Runs code of the module, which may throw anything. */
async function named<Value>(path: string, run: () => Value | Promise<Value>): Promise<Value> {
  try {
    return await run()
  } catch (cause) {
    const { code } = (cause ?? {}) as { readonly code?: unknown }
    const isFile = statSync(path, { throwIfNoEntry: false })?.isFile()
    if (NOT_FOUND.test(String(code)) && isFile !== true) {
      throw new UsageError(`there is no module ${path}`)
    }
    const message = `${path} does not start: ${messageOf(cause)}`
    if (IS_TYPESCRIPT.test(String(code))) {
      throw new UsageError(`${message}. Compile it, or set NODE_OPTIONS='--import tsx'`)
    }
    if (cause instanceof UsageError) throw new UsageError(message, { cause })
    throw Object.assign(new Error(message, { cause }), { code })
  }
}

function isWorker(value: unknown): value is RunnableWorker {
  if (typeof value !== 'object' || value === null) return false
  const { drain, isRunning } = value as Partial<RunnableWorker>
  return typeof drain === 'function' && typeof isRunning === 'function'
}
