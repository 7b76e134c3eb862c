/** Installs a Redis server with the package manager of the system. */

import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

/** Installing over a slow network takes minutes, and must end. */
const INSTALL_LIMIT_MS = 10 * 60_000
const PROBE_LIMIT_MS = 10_000
const SHOWN_LINES = 15

export interface Installer {
  /** The command as the user would type it, with what else it does. */
  readonly description: string
  run(): Promise<void>
}

/** The installer for this system, if there is one that needs no password. */
export async function findInstaller(): Promise<Installer | undefined> {
  if (process.platform === 'darwin' && (await works('brew', '--version'))) {
    return {
      description: 'brew install redis',
      run: () => run('brew', ['install', 'redis']),
    }
  }
  if (process.platform !== 'linux' || !(await works('apt-get', '--version'))) return undefined
  const root = process.getuid?.() === 0
  if (!root && !(await works('sudo', '-n', 'true'))) return undefined
  const sudo = root ? [] : ['sudo', '-n']
  const [command, ...rest] = [...sudo, 'sh', '-c', APT_INSTALL]
  return {
    description: `${[...sudo, 'apt-get install redis-server'].join(' ')} (without its system service)`,
    run: () => run(command, rest),
  }
}

/**
 * The package would start a service on port 6379, and at every boot. Debian's own switch against
 * that is policy-rc.d; it stays off when a Redis service runs already, which an upgrade has to
 * start again.
 */
const APT_INSTALL = `
set -e
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
service_runs() { service redis-server status >/dev/null 2>&1; }
apt() { apt-get -q -o DPkg::Lock::Timeout=300 "$@"; }

apt update
candidate=$(apt-cache policy redis-server | sed -n 's/^ *Candidate: //p')
if ! dpkg --compare-versions "$candidate" ge 5:7.0; then
  echo "This release offers redis-server $candidate, and 7.0 or newer is needed." >&2
  exit 1
fi

if service_runs; then
  apt install -y --no-install-recommends redis-server
  exit
fi
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  trap 'rm -f "$policy"' EXIT
  trap 'exit 1' INT TERM HUP
  printf '#!/bin/sh\\nexit 101\\n' >"$policy"
  chmod 755 "$policy"
fi
apt install -y --no-install-recommends redis-server
if service_runs; then service redis-server stop; fi
if [ -d /run/systemd/system ]; then systemctl disable --quiet redis-server; fi
`

async function works(command: string, ...args: readonly string[]): Promise<boolean> {
  try {
    await promisify(execFile)(command, args, { timeout: PROBE_LIMIT_MS })
    return true
  } catch {
    return false
  }
}

async function run(command: string, args: readonly string[]): Promise<void> {
  try {
    await promisify(execFile)(command, args, {
      timeout: INSTALL_LIMIT_MS,
      maxBuffer: 64 * 2 ** 20,
    })
  } catch (cause) {
    const { stdout, stderr } = cause as { readonly stdout: string; readonly stderr: string }
    const output = `${stdout}\n${stderr}`.trim().split('\n').slice(-SHOWN_LINES).join('\n')
    throw new Error(`Installing a Redis server failed; the last lines were:\n${output}`, { cause })
  }
}
