import type { ServerConfig } from './test-server.ts'

/** Nothing is written to disk and nothing is evicted, unless a test says otherwise. */
const DEFAULTS: ServerConfig = {
  save: '""',
  appendonly: 'no',
  'maxmemory-policy': 'noeviction',
  loglevel: 'warning',
}

/** What the fleet itself decides; a test that changed it would lose its server. */
const RESERVED = new Set(['port', 'bind', 'dir', 'daemonize', 'pidfile', 'logfile', 'unixsocket'])

/** Where the server listens and writes. */
export interface ServerPlacement {
  readonly bind: string
  readonly port: number
  readonly dir: string
}

/**
 * The text of a redis.conf.
 *
 * @throws TypeError for a directive that the fleet decides, or one that is not a single line
 */
export function configText(placement: ServerPlacement, config: ServerConfig): string {
  for (const [directive, value] of Object.entries(config)) {
    if (RESERVED.has(directive.toLowerCase())) {
      throw new TypeError(`The directive \`${directive}\` belongs to the fleet, it cannot be set`)
    }
    if (!/^[a-z][a-z0-9-]*$/i.test(directive) || /[\r\n]/.test(value)) {
      throw new TypeError(`Expected one directive and one line, got ${directive} ${value}`)
    }
  }
  const { bind, port, dir } = placement
  const own = { bind, port: `${port}`, dir: JSON.stringify(dir), daemonize: 'no' }
  return Object.entries({ ...DEFAULTS, ...config, ...own })
    .map(([directive, value]) => `${directive} ${value}\n`)
    .join('')
}

/** The URL of a server with this configuration. */
export function serverUrl(host: string, port: number, config: ServerConfig): string {
  const password = passwordOf(config)
  const login = password === undefined ? '' : `:${encodeURIComponent(password)}@`
  return `redis://${login}${host}:${port}`
}

/** The password of the default user, if the configuration asks for one. */
export function passwordOf(config: ServerConfig): string | undefined {
  const password = config['requirepass']?.replace(/^"(.*)"$/, '$1')
  return password === '' ? undefined : password
}
