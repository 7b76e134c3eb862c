/** A real Redis server that a test may kill, freeze and restart. */
export interface TestServer extends AsyncDisposable {
  /** What the server is for, such as `master-1` or `queue`; it appears in error messages. */
  readonly name: string
  /** The address on which it listens. */
  readonly host: string
  /** Stays the same over {@link kill} and {@link restart}. Never 6379. */
  readonly port: number
  /** `redis://host:port`, with the password when the configuration has `requirepass`. */
  readonly url: string
  /** Whether the server's process exists; a frozen server counts as running. */
  readonly running: boolean
  /** Ends the server at once (SIGKILL), as a crash does; resolves when it is gone. */
  kill(): Promise<void>
  /**
   * Stops the process without ending it (SIGSTOP): connections stay open, and the server does not
   * answer.
   */
  freeze(): Promise<void>
  /** Lets a frozen server go on (SIGCONT). */
  thaw(): Promise<void>
  /** Starts the server again on the same port; resolves when it answers. */
  restart(options?: RestartOptions): Promise<void>
  /** Ends the server, frozen or not, and removes its data. Calling it again does nothing. */
  close(): Promise<void>
}

/** What a restarted server finds. */
export interface RestartOptions {
  /**
   * Whether the new process finds the directory of the old one. A crash keeps only what the server
   * had written, so without persistence in {@link config} the data is gone either way.
   *
   * @defaultValue `true`
   */
  readonly keepData?: boolean
  /** Directives for redis.conf from now on, over those the server had. */
  readonly config?: ServerConfig
}

/** Directives for redis.conf, each value as it would stand there: `{ save: '900 1' }`. */
export type ServerConfig = Readonly<Record<string, string>>

/** What runs the servers: `redis-server` processes of this machine, or Docker containers. */
export type Backend = 'processes' | 'containers'
