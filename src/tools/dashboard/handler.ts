/**
 * The dashboard as a request handler: for its own server (`bullmq-redlock dashboard`) or inside an
 * application, beside Bull Board. One route acts, and only for an operator.
 *
 *   GET  /                             the page
 *   GET  /page.css, …                  its files
 *   GET  /state?search=&sort=&page=    what it shows, as JSON
 *   GET  /events?search=&sort=&page=   the same, after every snapshot
 *   GET  /resource?name=               one resource
 *   GET  /job?queue=&id=               one job
 *   GET  /login                        where an operator types the token
 *   POST /login                        token in, cookie out
 *   POST /act                          what an operator does, as JSON
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { FleetProbe } from '../operator/fleet-probe.ts'
import { fleetView, serviceView, type LockView } from '../operator/lock-view.ts'
import { QueueView } from '../operator/queue-view.ts'
import { jobDetail, jobsUnder, type JobsByResource } from '../operator/jobs.ts'
import { resourcePage } from '../operator/resource-view.ts'
import { Access, isOwnRequest, WrongTokens } from './access.ts'
import { Actions, wantedIn } from './actions.ts'
import {
  file,
  give,
  isPublic,
  json,
  makeSafe,
  posted,
  redirect,
  text,
  routedRequest,
  type HttpAnswer,
  type RoutedRequest,
} from './answers.ts'
import { NO_QUEUE, problemOf, Snapshots, STREAM, type Snapshot } from './snapshots.ts'
import { resolveOptions, type DashboardOptions, type ResolvedOptions } from './options.ts'
import { leasePage, MAX_NAME, stateOf, viewIn, type DashboardState, type View } from './state.ts'

/** What express, connect and h3 call when another handler answers. */
export type Next = (error?: unknown) => void

/** A request handler for `node:http`, express, connect and h3. */
export interface DashboardHandler {
  /** Answers a request. With `next`, a path that it does not know is left to the next handler. */
  (request: IncomingMessage, response: ServerResponse, next?: Next): void
  /**
   * Why a job does not run, in words; undefined when it has finished, or is not there, or no
   * `queueRedis` is named. Its lines are found by a scan of at most 100 000 keys.
   */
  why(queue: string, jobId: string): Promise<string | undefined>
  /** Ends the streams and closes the connections to the servers. */
  close(): Promise<void>
}

const REFUSALS = {
  'wrong host':
    'This host name is not allowed. If a proxy forwards to this page, add the name to `allowedHosts` (--allowed-host).',
  denied:
    'Access denied. From other machines, or through a proxy, a `token` (--token) or `authorize` is needed.',
  'foreign page': 'Access denied: the request came from another site. Open this page directly.',
  blocked: 'Too many wrong tokens from this address. Try again in a second.',
} as const

/**
 * The dashboard as a request handler, for an application that serves it itself.
 * @throws TypeError for a bad option.
 * @example
 * ```ts
 * app.use('/redlock', dashboardHandler({ masters, queueRedis: 'redis://queue:6379', token }))
 * ```
 */
export function dashboardHandler(options: DashboardOptions): DashboardHandler {
  const dashboard = new Dashboard(resolveOptions(options))
  const handler = (request: IncomingMessage, response: ServerResponse, next?: Next): void => {
    dashboard.handle(request, response, next).catch((error: unknown) => {
      if (response.headersSent) response.destroy()
      else if (next !== undefined) next(error)
      else give({ request, response }, text(503, 'The dashboard failed. Try again.'))
    })
  }
  return Object.assign(handler, {
    why: (queue: string, jobId: string) => dashboard.why(queue, jobId),
    close: () => dashboard.close(),
  })
}

type Page = (to: RoutedRequest) => Promise<HttpAnswer | undefined>

class Dashboard {
  readonly #options: ResolvedOptions
  readonly #access: Access
  readonly #fleet: FleetProbe | undefined
  readonly #locks: LockView
  readonly #queue: QueueView | undefined
  readonly #snapshots: Snapshots
  readonly #actions: Actions
  readonly #wrongTokens = new WrongTokens()
  readonly #pages: Readonly<Record<string, Page>> = {
    '/': () => this.#page(),
    '/state': async ({ request, query }) => {
      const operator = await this.#access.operatorOf(request)
      return this.#json(await this.#state(await this.#snapshots.latest(), viewIn(query), operator))
    },
    '/events': (to) => this.#stream(to),
    '/resource': (to) => this.#resource(to),
    '/job': (to) => this.#job(to),
  }
  #running: JobsByResource = new Map()
  #isClosed = false

  constructor(options: ResolvedOptions) {
    this.#options = options
    const { prefix, timeoutMs, queueRedis } = options
    this.#access = new Access(options)
    if (options.locks === undefined) {
      this.#fleet = new FleetProbe(options)
      this.#locks = fleetView(this.#fleet)
    } else {
      this.#locks = serviceView(options.locks)
    }
    if (queueRedis !== undefined) this.#queue = new QueueView(queueRedis, prefix, timeoutMs)
    this.#snapshots = new Snapshots({ ...options, locks: this.#locks, queue: this.#queue })
    const hands = { queue: this.#queue, fleet: this.#fleet, maxLeaseMs: options.maxLeaseMs }
    this.#actions = new Actions(options.logger, hands)
  }

  async handle(request: IncomingMessage, response: ServerResponse, next?: Next): Promise<void> {
    const to = routedRequest(request, response, this.#options.basePath)
    if (to === undefined || !this.#isOurs(to)) {
      if (next === undefined) give({ request, response }, text(404, 'Not found.'))
      else next()
      return
    }
    makeSafe(response)
    const answer = this.#isClosed ? text(503, 'The dashboard is closed.') : await this.#answer(to)
    if (answer !== undefined) give(to, answer)
  }

  async why(queue: string, jobId: string): Promise<string | undefined> {
    const job = await this.#queue?.explain(queue, jobId, this.#locks.resource)
    const isOver = job?.state === 'completed' || job?.state === 'failed'
    return isOver ? undefined : job?.why
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#snapshots.close()
    this.#fleet?.close()
    await this.#queue?.close()
  }

  #isOurs({ path }: RoutedRequest): boolean {
    return path === LOGIN || path === ACT || path in this.#pages || isPublic(path.slice(1))
  }

  /** Undefined when the answer has been begun. */
  async #answer(to: RoutedRequest): Promise<HttpAnswer | undefined> {
    const { path, request, mount } = to
    const verdict = await this.#access.of(request)
    if (verdict === 'wrong host') return text(421, REFUSALS[verdict])
    if (verdict === 'foreign page') return text(403, REFUSALS[verdict])
    const { remoteAddress } = request.socket
    const tries = this.#access.triesWrongToken(request) || path === LOGIN
    if (tries && this.#wrongTokens.isBlocked(remoteAddress)) {
      return text(429, REFUSALS.blocked, { 'retry-after': '1' })
    }
    if (path === LOGIN && request.method === 'POST') return this.#login(to)
    if (this.#access.triesWrongToken(request)) await this.#wrongTokens.delay(remoteAddress)
    if (path === ACT && request.method === 'POST') {
      return verdict === 'allowed' ? this.#act(to) : this.#refusal(path, verdict)
    }
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      return text(405, 'Only GET and HEAD are answered here.', { allow: 'GET, HEAD' })
    }
    if (path === ACT) return text(405, 'An action is a POST.', { allow: 'POST' })
    if (path === LOGIN)
      return this.#access.hasLogin ? this.#loginPage('', 200) : redirect(302, './')
    if (to.lacksSlash) return redirect(302, `${mount.split('/').at(-1) ?? ''}/`)
    // The files are the same for every viewer, and the login needs them.
    if (isPublic(path.slice(1))) return file(path.slice(1))
    return verdict === 'allowed' ? this.#pages[path]?.(to) : this.#refusal(path, verdict)
  }

  async #refusal(path: string, verdict: 'denied' | 'login'): Promise<HttpAnswer> {
    if (verdict === 'denied') return text(403, REFUSALS.denied)
    if (path === '/') return this.#loginPage('')
    return text(401, 'A token is needed: `Authorization: Bearer …`.', BEARER)
  }

  async #loginPage(problem: string, status: 200 | 401 = 401): Promise<HttpAnswer> {
    const page = await file('login.html')
    const body = page.body
      .replace('<!-- problem -->', problem)
      .replace(
        '<p id="who-may" hidden>',
        `<p id="who-may"${this.#access.hasOperatorLogin ? '' : ' hidden'}>`,
      )
    return { status, headers: { ...page.headers, ...(status === 401 && BEARER) }, body }
  }

  async #login({ request, mount }: RoutedRequest): Promise<HttpAnswer> {
    // A form that is too long ends the request, and with it its socket.
    const { remoteAddress } = request.socket
    const form = await posted(request, (body) => Object.fromEntries(new URLSearchParams(body)))
    const { token, who } = form
    if (typeof token !== 'string' || !this.#access.accepts(token)) {
      await this.#wrongTokens.delay(remoteAddress)
      return this.#loginPage(WRONG_TOKEN)
    }
    const secure = (request.socket as { readonly encrypted?: boolean }).encrypted === true
    const name = typeof who === 'string' ? who : ''
    const cookie = this.#access.cookie(token, name, `${mount}/`, secure)
    return redirect(303, './', { 'set-cookie': cookie })
  }

  async #act({ request }: RoutedRequest): Promise<HttpAnswer> {
    const who = await this.#access.operatorOf(request)
    if (who === undefined) return text(403, 'Log in with the operator’s token to act.')
    if (!isOwnRequest(request)) return text(403, REFUSALS['foreign page'])
    const wanted = wantedIn(await posted(request, JSON.parse))
    if (wanted === undefined) return text(400, 'There is no such action, or it lacks something.')
    return this.#json(await this.#actions.do(wanted, who, request.socket.remoteAddress ?? ''))
  }

  /** The page asks for the state as soon as it is loaded: the look begins at once. */
  #page(): Promise<HttpAnswer> {
    this.#snapshots.latest().catch(() => undefined) // Each request for the state is told.
    return file('index.html')
  }

  async #stream(to: RoutedRequest): Promise<HttpAnswer | undefined> {
    if (to.request.method === 'HEAD') return text(200, '', STREAM)
    const view = viewIn(to.query)
    const operator = await this.#access.operatorOf(to.request)
    return this.#snapshots.stream(to, (snapshot) => this.#state(snapshot, view, operator))
  }

  async #resource(to: RoutedRequest): Promise<HttpAnswer> {
    const name = to.query.get('name') ?? ''
    if (name === '' || name.length > MAX_NAME) {
      return text(400, `Expected \`name\` to have 1 to ${MAX_NAME} characters.`)
    }
    return this.#json(await resourcePage(this.#locks, this.#queue, name))
  }

  async #job(to: RoutedRequest): Promise<HttpAnswer> {
    const [queue, jobId] = [to.query.get('queue') ?? '', to.query.get('id') ?? '']
    if (Math.max(queue.length, jobId.length) > MAX_NAME) {
      return text(400, `Expected \`queue\` and \`id\` to have at most ${MAX_NAME} characters.`)
    }
    const view = this.#queue
    if (view === undefined) return text(404, NO_QUEUE.problem)
    try {
      const job = await jobDetail(view, { queue, jobId }, this.#locks.resource)
      return job === undefined ? text(404, await view.absence(queue, jobId)) : this.#json(job)
    } catch (error) {
      return text(503, problemOf(error).problem)
    }
  }

  #json(value: object): HttpAnswer {
    return json(value, 200, this.#options.shown)
  }

  async #state(
    snapshot: Snapshot,
    view: View,
    operator: string | undefined,
  ): Promise<DashboardState> {
    const found = await this.#snapshots.search(snapshot, view.search)
    const shown = leasePage(found.leases, view)
    // The page shows why the queue's Redis does not answer, where it shows the lines.
    const jobs = this.#queue && jobsUnder(this.#queue.places, shown.rows, this.#running)
    this.#running = (await jobs?.catch(() => undefined)) ?? new Map()
    const { hasOperatorLogin } = this.#access
    const viewer = { operator: operator ?? null, hasOperatorLogin, done: this.#actions.done }
    return stateOf(snapshot, found, shown, this.#running, this.#options, view, viewer)
  }
}

const LOGIN = '/login'
const ACT = '/act'
const BEARER = { 'www-authenticate': 'Bearer' }
const WRONG_TOKEN = '<p class="problem" role="alert">Wrong token.</p>'
