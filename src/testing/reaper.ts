/**
 * No process that is registered here, a server or one of the demo's workers, outlives this one,
 * however it ends.
 *
 * This process has one directory, in which every child has its own with a `pid` file, and one
 * detached shell that reads from a pipe. The shell never gets a line: when the pipe ends, this
 * process is gone (kill -9 included) or its last child is closed. It then ends every process that
 * a `pid` file names, and removes the directory.
 *
 * It renames the directory before it looks for pid files. A server writes its own pid file before
 * it becomes a server (see {@link LAUNCH}), and that fails once the directory is renamed, so there
 * is no moment in which a server exists that the reaper does not find.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pRetry from 'p-retry'

/** Every directory's name starts so; the process's id follows. */
export const DIRECTORY_PREFIX = 'bullmq-redlock-fleet-'

/** `sh -c LAUNCH directory command...`: leaves the pid in the directory and becomes the command. */
export const LAUNCH = 'echo $$ >"$0/pid.new" && mv "$0/pid.new" "$0/pid" && exec "$@"'

const REAP = `
trap '' INT HUP TERM
cat >/dev/null
mv "$0" "$0.gone" || exit 0
for file in "$0.gone"/*/pid; do
  [ -e "$file" ] && kill -KILL $(cat "$file")
done
rm -rf "$0.gone" || { sleep 1; rm -rf "$0.gone"; }
`

const AGAIN = { retries: 100, minTimeout: 20, factor: 1 }

/** A directory that goes away with its owner. */
export interface ChildDirectory {
  readonly path: string
  /** Removes it; with the last one the reaper goes too. */
  release(): Promise<void>
}

interface Reaper {
  readonly shell: ChildProcess
  readonly root: string
  count: number
  users: number
}

/** One for the process, because the pipe can only tell that the whole process is gone. */
let current: Reaper | undefined

/** A fresh directory for one child. */
export function takeDirectory(name: string): ChildDirectory {
  const reaper = current ?? startReaper()
  current = reaper
  reaper.users += 1
  reaper.count += 1
  const path = join(reaper.root, `${reaper.count}-${name}`)
  mkdirSync(path)
  return {
    path,
    async release() {
      await removeTree(path)
      reaper.users -= 1
      if (reaper.users === 0) await stopReaper(reaper)
    },
  }
}

/** Tries again where a child of the child still writes, which `maxRetries` does not. */
export async function removeTree(path: string): Promise<void> {
  await pRetry(() => rm(path, { recursive: true, force: true }), AGAIN)
}

function startReaper(): Reaper {
  const unique = randomBytes(6).toString('hex')
  const root = join(tmpdir(), `${DIRECTORY_PREFIX}${process.pid}-${unique}`)
  const shell = spawn('/bin/sh', ['-c', REAP, root], {
    cwd: '/',
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  if (shell.pid === undefined) {
    // Without a listener the event would be thrown a second time, from nowhere.
    shell.once('error', () => undefined)
    throw new Error('Test servers need a POSIX shell at /bin/sh; FLEET=containers does without')
  }
  // Only now: a directory that is there has a shell that removes it.
  mkdirSync(root, { mode: 0o700 })
  return { shell, root, count: 0, users: 0 }
}

async function stopReaper(reaper: Reaper): Promise<void> {
  if (current === reaper) current = undefined
  const { shell } = reaper
  if (shell.exitCode !== null || shell.signalCode !== null) return
  const exited = once(shell, 'exit')
  shell.stdin?.end()
  await exited
}
