/** The page: draws what the server sees after every snapshot, and says so when nothing comes. */
import { listen, setOperator } from './act.js'
import { drawCharts } from './charts.js'
import { setBullBoard } from './job.js'
import { drawPanels, openable } from './panels.js'
import { byId, expectNews, say, tell } from './rows.js'
import { drawSections } from './sections.js'
import { clockTime, count, duration } from './words.js'

/** After this many snapshot periods without news, and at least this time, what is shown is old. */
const STALE_SNAPSHOTS = 3
const STALE_MIN_MS = 5_000
const RETRY_MS = 2_000
const TYPING_MS = 250

/** What the page knows. */
const query = new URLSearchParams(location.search)
const page = {
  stream: undefined,
  /** The last state, and when it came, on this machine's clock. */
  state: undefined,
  heardAt: performance.now(),
  connected: false,
  search: query.get('search') ?? '',
  sort: query.get('sort') ?? 'resource',
  number: Number(query.get('page') ?? 1),
}

function draw(state) {
  const { namespace, fleet, leases, search } = state
  tell('namespace', namespace)
  tell('looked', `Looked at ${clockTime(state.at)}, every ${duration(state.everyMs)}.`)
  setOperator(state)
  setBullBoard(state.bullBoard)
  drawCharts(state)
  drawSections(state)
  page.number = leases.page
  const votes = `${fleet.voting}/${fleet.masters.length}`
  document.title = `${fleet.healthy ? '' : '⚠ '}${votes} – bullmq-redlock`
  if (search !== '') say(`search ${search}`, `${count(leases.matching, 'lease')} found`)
}

/** What this viewer wants to see, as the address and the server have it. */
function viewQuery() {
  const params = new URLSearchParams()
  if (page.search !== '') params.set('search', page.search)
  if (page.sort !== 'resource') params.set('sort', page.sort)
  if (page.number > 1) params.set('page', String(page.number))
  return params.size === 0 ? '' : `?${params}`
}

/** Asks for another view, and keeps it in the address. */
function show(view) {
  Object.assign(page, view)
  history.replaceState(null, '', location.pathname + viewQuery() + location.hash)
  connect()
}

function connect() {
  page.stream?.close()
  const stream = new EventSource(`events${viewQuery()}`)
  page.stream = stream
  stream.addEventListener('state', ({ data }) => {
    if (stream !== page.stream) return
    page.state = JSON.parse(data)
    page.heardAt = performance.now()
    page.connected = true
    draw(page.state)
    showConnection()
    // It is tried again with the next state.
    void drawPanels().catch(() => undefined)
  })
  stream.addEventListener('error', () => {
    if (stream !== page.stream) return
    page.connected = false
    showConnection()
    // A browser connects again by itself, unless it was refused.
    if (stream.readyState === EventSource.CLOSED)
      setTimeout(() => void connectAgain(stream), RETRY_MS)
  })
}

async function connectAgain(stream) {
  if (stream !== page.stream) return
  const answer = await fetch('state', { method: 'HEAD' }).catch(() => undefined)
  if (answer?.status === 401) location.reload()
  else connect()
}

function showConnection() {
  const ageMs = performance.now() - page.heardAt
  const limitMs = Math.max(STALE_MIN_MS, STALE_SNAPSHOTS * (page.state?.everyMs ?? 0))
  const live = page.connected && ageMs < limitMs
  if (page.state === undefined && ageMs < limitMs) return
  tell('connection', live ? 'Live' : 'Not connected', live ? 'live' : 'lost')
  const age = duration(Math.round(ageMs / 1_000) * 1_000)
  const what = page.state === undefined ? 'Nothing has come yet' : `What you see is old: ${age}`
  tell('stale', live ? undefined : `No connection to the dashboard. ${what}. Trying again …`)
  say('connection', live ? 'Connected again.' : 'Connection lost. What you see is old.')
}

let typing
function searchFor(text) {
  clearTimeout(typing)
  if (text === page.search) return
  expectNews(`search ${text}`)
  show({ search: text, number: 1 })
}

const field = byId('text')
field.value = page.search
field.addEventListener('input', () => {
  clearTimeout(typing)
  typing = setTimeout(() => searchFor(field.value.trim()), TYPING_MS)
})
byId('search').addEventListener('submit', (event) => {
  event.preventDefault()
  searchFor(field.value.trim())
})
byId('sort').addEventListener('change', ({ target }) => show({ sort: target.value, number: 1 }))
byId('previous').addEventListener('click', () => show({ number: page.number - 1 }))
byId('next').addEventListener('click', () => show({ number: page.number + 1 }))
openable()
listen(drawPanels)
setInterval(showConnection, 1_000)
connect()
void drawPanels()
