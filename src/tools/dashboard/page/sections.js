/** What there is to see of the fleet: one function for each section of the page. */
import { boardLink, jobActs, jobLink, jobName } from './job.js'
import {
  byId,
  element,
  list,
  resourceLink,
  say,
  setText,
  stateOf,
  syncRows,
  tableOf,
} from './rows.js'
import { clockTime, count, duration, known, limitsInWords, perSecond, whole } from './words.js'

export function drawSections(state) {
  drawNow(state)
  drawFound(state)
  drawFailed(state)
  drawLines(state)
  drawLeases(state)
  drawQueues(state)
  drawFleet(state)
  drawSeen(state)
  drawDone(state)
}

/** The first thing that one sees: what is wrong, worst first, and what to do. */
function drawNow({ fleet, queues }) {
  const shown = fleet.findings.filter(({ severity }) => severity !== 'note')
  const areKnown = Array.isArray(queues)
  const [worst] = shown
  const summary = byId('now-summary')
  if (worst === undefined) {
    summary.dataset.state = areKnown ? 'good' : 'soon'
    const locks = fleet.service ?? 'the masters'
    setText(summary, areKnown ? 'Nothing is wrong.' : `Nothing is wrong with ${locks}.`)
  } else {
    summary.dataset.state = worst.severity === 'error' ? 'bad' : 'soon'
    setText(summary, `${count(shown.length, 'thing')} to see to:`)
  }
  const target = byId('findings')
  const wanted = JSON.stringify(shown)
  if (target.dataset.shown === wanted) return
  target.dataset.shown = wanted
  target.replaceChildren(...shown.map(finding))
}

function finding({ severity, where, fact, fix }) {
  const said = element('strong', { 'data-state': severity, textContent: severity })
  return element(
    'li',
    {},
    element('span', {}, said, ` ${where}: ${fact}`),
    element('span', { className: 'quiet', textContent: `Fix: ${fix}` }),
  )
}

/** Jobs that were searched for by id. */
function drawFound({ jobs, search }) {
  byId('found').hidden = jobs.length === 0
  setText(byId('found-title'), `Jobs with the id “${search}”`)
  syncRows('found-jobs', jobs, jobName, ({ state, why, resources, ...job }) => ({
    Job: jobLink(job),
    State: state,
    Resource: resources.length === 0 ? undefined : resourceLink(resources[0]),
    Why: why,
  }))
}

function drawFailed({ failed, queues }) {
  const rows = Array.isArray(queues) ? queues : undefined
  const total = rows?.reduce((sum, one) => sum + one.failed, 0)
  const atLeast = rows?.some(({ missing }) => missing !== undefined) ? 'At least ' : ''
  setText(
    byId('failed-summary'),
    total === undefined
      ? queuesSummary(queues)
      : total === 0 && atLeast === ''
        ? 'No failed job is kept.'
        : `${atLeast}${count(total, 'failed job')}${failed.length < total ? `; the last ${failed.length}` : ''}. Those that hold a line come first.`,
  )
  syncRows(
    'failed',
    failed,
    jobName,
    ({ resources, failedReason, attempts, endedAt, holdsLine, ...job }) => ({
      Job: jobLink(job),
      Resource: resources.length === 0 ? undefined : resourceLink(resources[0]),
      State: holdsLine ? stateOf('soon', 'holds its line') : undefined,
      Reason: failedReason,
      Attempts: String(attempts),
      'Failed at': clockTime(endedAt),
      Actions: jobActs({ ...job, state: 'failed', holdsLine }),
    }),
  )
}

/** What operators did. */
function drawDone({ done }) {
  byId('acted').hidden = done.length === 0
  syncRows(
    'done',
    done,
    ({ at, what }) => `${at}\n${what}`,
    ({ at, who, what, ok, outcome }) => ({
      Command: what,
      Who: who,
      State: stateOf(ok ? 'good' : 'bad', ok ? 'done' : 'not done'),
      Outcome: outcome,
      At: clockTime(at),
    }),
  )
}

function drawFleet({ fleet: { service, verdict, masters } }) {
  setText(byId('fleet-title'), service === null ? 'Fleet' : 'Lock service')
  setText(byId('fleet-summary'), verdict.text)
  byId('fleet-summary').dataset.state = verdict.state
  say('fleet', verdict.text)
  syncRows(
    'masters',
    masters,
    ({ master }) => master,
    ({ master, state, role, version, clockOffMs, roundTripMs, uptimeMs }) => ({
      Server: master,
      State: stateOf(state, role),
      Version: version,
      Clock: known(clockOffMs, signed),
      'Round trip': known(roundTripMs, (ms) => `${ms.toFixed(1)} ms`),
      Up: known(uptimeMs, duration),
    }),
  )
}

const signed = (ms) => (ms === 0 ? '0 ms' : `${ms < 0 ? '−' : '+'}${duration(Math.abs(ms))}`)

function drawLeases({ leases, search, lines, fleet }) {
  const { rows, matching, truncated, masters, sort, page, pages } = leases
  const which = search === '' ? '' : ` with “${search}” in the name`
  const more = truncated
    ? 'There are or may be more than were looked at: search for a part of the name.'
    : ''
  const counted = `${count(matching, 'lease')}${which}`
  // A lock service that is away shows nothing.
  const seen = fleet.service === null ? ` Seen on those that do: ${counted}. ${more}` : ''
  setText(
    byId('leases-summary'),
    leases.problem === null
      ? `${counted}. ${more}`
      : `The holders are not known: ${leases.problem}.${seen}`,
  )
  byId('leases-summary').dataset.state = leases.problem === null ? '' : 'bad'
  drawPager(page, pages)
  byId('sort').parentElement.hidden = matching === 0
  byId('sort').value = sort
  tableOf('leases').dataset.jobs = lines.problem === undefined ? 'known' : 'unknown'
  tableOf('leases').dataset.votes = fleet.service === null ? 'counted' : 'none'
  if (fleet.service !== null) byId('sort').querySelector('[value=votes]')?.remove()
  syncRows(
    'leases',
    rows,
    ({ resource, holder }) => `${resource}\n${holder}`,
    ({ resource, state, holder, fencingToken, freeInMs, votes, job }) => ({
      Resource: resourceLink(resource),
      State: stateOf(state),
      Holder: holder,
      Job: known(job, jobCell),
      'Time left': duration(freeInMs),
      Votes: `${votes} of ${masters}`,
      'Fencing token': known(fencingToken, String),
    }),
  )
}

/** The job under a lease, and how long it has run. */
function jobCell(job) {
  const text = `${jobName(job)}, for ${duration(Math.max(0, Date.now() - job.since))}`
  return boardLink(job, text) ?? jobLink(job, text)
}

function drawPager(page, pages) {
  byId('pager').hidden = pages < 2
  setText(byId('page-number'), `Page ${page} of ${pages}`)
  byId('previous').disabled = page <= 1
  byId('next').disabled = page >= pages
}

function drawQueues({ queues, rates }) {
  const rateOf = (name) => rates.find(({ queue }) => queue === name)
  const rows = Array.isArray(queues) ? queues : []
  const summary = byId('queues-summary')
  const reason = rows.find(({ missing }) => missing !== undefined)?.missing
  summary.hidden = rows.length > 0 && reason === undefined
  if (rows.length === 0) setText(summary, queuesSummary(queues))
  else if (reason !== undefined) setText(summary, `A number with ≥ may be larger: ${reason}`)
  syncRows(
    'queues',
    rows,
    ({ queue }) => queue,
    ({ queue, waiting, delayed, active, failed, done, missing }) => {
      const atLeast = (words) => (missing === undefined ? words : `≥ ${words}`)
      return {
        Queue: queue,
        Completed: known(rateOf(queue)?.completed, (rate) => atLeast(perSecond(rate))),
        Waiting: atLeast(whole(waiting)),
        Delayed: atLeast(whole(delayed)),
        Active: atLeast(whole(active)),
        Failed: stateOf(failed > 0 ? 'soon' : '', atLeast(whole(failed))),
        Done: atLeast(whole(done)),
      }
    },
  )
}

const queuesSummary = ({ problem }) =>
  problem === undefined ? 'There is no queue yet.' : `Not known. ${problem}`

const inLine = (entry) =>
  entry.state === 'active'
    ? `${jobName(entry)} is running`
    : `${jobName(entry)} (${entry.state}) waits for ${entry.waitsFor}`

function drawLines({ lines, search }) {
  setText(byId('lines-summary'), linesSummary(lines, search))
  syncRows(
    'lines',
    lines.lines ?? [],
    ({ queue, resource }) => `${queue}\n${resource}`,
    ({ queue, resource, jobs, first, limits }) => ({
      Resource: resourceLink(resource),
      Queue: queue,
      Jobs: whole(jobs),
      Tenant: known(first[0]?.share, tenantOf),
      Set: limitsInWords(limits),
      'First jobs': list(first.map(inLine)),
    }),
  )
}

const tenantOf = ({ tenant, weight }) => (weight === 1 ? tenant : `${tenant}, weight ${weight}`)

function linesSummary(lines, search) {
  if (lines.problem !== undefined) return `Not known. ${lines.problem}`
  const { total, truncated } = lines
  if (total === 0) return 'No jobs sleep in a line.'
  const shown =
    lines.lines.length === total
      ? ''
      : `, ${lines.lines.length} shown${search === '' ? '' : ' for this search'}`
  const more = truncated ? ' Not all were looked at.' : ''
  return `${count(total, 'line')} in which jobs sleep until it is their turn${shown}.${more}`
}

function drawSeen({ changes: { lapsed, unknown } }) {
  const none = lapsed.length === 0 ? 'No lease has run out.' : ''
  setText(byId('seen-summary'), unknown === undefined ? none : `Not known: ${unknown}.`)
  syncRows(
    'lapsed',
    lapsed,
    ({ resource, holder, at }) => `${resource}\n${holder}\n${at}`,
    ({ resource, holder, at }) => ({
      Resource: resourceLink(resource),
      Holder: holder,
      'Gone at': clockTime(at),
    }),
  )
  say('lapsed', lapsed.length === 0 ? '' : `A lease ran out: ${lapsed[0].resource}`)
}
