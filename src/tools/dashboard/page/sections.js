/** What there is to see of the fleet: one function for each section of the page. */
import { boardLink, jobActs, jobLink, jobName } from './job.js'
import { byId, element, fill, list, resourceLink, rows, say, stateOf, tell } from './rows.js'
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
  if (worst !== undefined) {
    const state = worst.severity === 'error' ? 'bad' : 'soon'
    tell('now-summary', `${count(shown.length, 'thing')} to see to:`, state)
  } else if (areKnown) tell('now-summary', 'Nothing is wrong.', 'good')
  else tell('now-summary', `Nothing is wrong with ${fleet.service ?? 'the masters'}.`, 'soon')
  fill(byId('findings'), ...shown.map(finding))
}

const finding = ({ severity, where, fact, fix }) =>
  element(
    'li',
    {},
    element('strong', { 'data-state': severity }, severity),
    ` ${where}: ${fact}`,
    element('span', { class: 'quiet' }, `Fix: ${fix}`),
  )

/** Jobs that were searched for by id. */
function drawFound({ jobs, search }) {
  byId('found').hidden = jobs.length === 0
  tell('found-title', `Jobs with the id “${search}”`)
  rows('found-jobs', jobs, ({ state, why, resources, ...job }) => ({
    Job: jobLink(job),
    State: state,
    Resource: resourceLink(resources[0]),
    Why: why,
  }))
}

function drawFailed({ failed, queues }) {
  tell('failed-summary', failedSummary(failed, queues))
  rows('failed', failed, ({ resources, failedReason, attempts, endedAt, holdsLine, ...job }) => ({
    Job: jobLink(job),
    Resource: resourceLink(resources[0]),
    State: holdsLine ? stateOf('soon', 'holds its line') : undefined,
    Reason: failedReason,
    Attempts: String(attempts),
    'Failed at': clockTime(endedAt),
    Actions: jobActs({ ...job, state: 'failed', holdsLine }),
  }))
}

function failedSummary(failed, queues) {
  if (!Array.isArray(queues)) return queuesSummary(queues)
  const total = queues.reduce((sum, one) => sum + one.failed, 0)
  const isPart = queues.some(({ missing }) => missing !== undefined)
  if (total === 0 && !isPart) return 'No failed job is kept.'
  const last = failed.length < total ? `; the last ${failed.length}` : ''
  return `${isPart ? 'At least ' : ''}${count(total, 'failed job')}${last}. Those that hold a line come first.`
}

/** What operators did. */
function drawDone({ done }) {
  byId('acted').hidden = done.length === 0
  rows('done', done, ({ at, who, what, ok, outcome }) => ({
    Command: what,
    Who: who,
    State: stateOf(ok ? 'good' : 'bad', ok ? 'done' : 'not done'),
    Outcome: outcome,
    At: clockTime(at),
  }))
}

function drawFleet({ fleet: { service, verdict, masters } }) {
  tell('fleet-title', service === null ? 'Fleet' : 'Lock service')
  tell('fleet-summary', verdict.text, verdict.state)
  say('fleet', verdict.text)
  rows(
    'masters',
    masters,
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
  const { problem, matching, masters, sort, page, pages } = leases
  const isFleet = fleet.service === null
  const summary = leasesSummary(leases, search, isFleet)
  tell('leases-summary', summary, problem === null ? '' : 'bad')
  byId('pager').hidden = pages < 2
  tell('page-number', `Page ${page} of ${pages}`)
  byId('previous').disabled = page <= 1
  byId('next').disabled = page >= pages
  byId('sort').parentElement.hidden = matching === 0
  byId('sort').value = sort
  if (!isFleet) byId('sort').querySelector('[value=votes]')?.remove()
  rows(
    'leases',
    leases.rows,
    ({ resource, state, holder, fencingToken, freeInMs, votes, job }) => ({
      Resource: resourceLink(resource),
      State: stateOf(state),
      Holder: holder,
      Job: lines.problem === undefined && known(job, jobCell),
      'Time left': duration(freeInMs),
      Votes: isFleet && `${votes} of ${masters}`,
      'Fencing token': known(fencingToken, String),
    }),
  )
}

function leasesSummary({ problem, matching, truncated }, search, isFleet) {
  const which = search === '' ? '' : ` with “${search}” in the name`
  const more = truncated
    ? 'There are or may be more than were looked at: search for a part of the name.'
    : ''
  const counted = `${count(matching, 'lease')}${which}. ${more}`
  if (problem === null) return counted
  // A lock service that is away shows nothing.
  return `The holders are not known: ${problem}.${isFleet ? ` Seen on those that do: ${counted}` : ''}`
}

/** The job under a lease, and how long it has run. */
function jobCell(job) {
  const text = `${jobName(job)}, for ${duration(Math.max(0, Date.now() - job.since))}`
  return boardLink(job, text) ?? jobLink(job, text)
}

function drawQueues({ queues, rates }) {
  const all = Array.isArray(queues) ? queues : []
  const missing = all.find((one) => one.missing !== undefined)?.missing
  const note = known(missing, (reason) => `A number with ≥ may be larger: ${reason}`)
  tell('queues-summary', all.length === 0 ? queuesSummary(queues) : note)
  rows('queues', all, ({ queue, waiting, delayed, active, failed, done, missing }) => {
    const atLeast = (words) => (missing === undefined ? words : `≥ ${words}`)
    const rate = rates.find((one) => one.queue === queue)?.completed
    return {
      Queue: queue,
      Completed: known(rate, (each) => atLeast(perSecond(each))),
      Waiting: atLeast(whole(waiting)),
      Delayed: atLeast(whole(delayed)),
      Active: atLeast(whole(active)),
      Failed: stateOf(failed > 0 ? 'soon' : '', atLeast(whole(failed))),
      Done: atLeast(whole(done)),
    }
  })
}

const queuesSummary = ({ problem }) =>
  problem === undefined ? 'There is no queue yet.' : `Not known. ${problem}`

function drawLines({ lines, search }) {
  tell('lines-summary', linesSummary(lines, search))
  rows('lines', lines.lines ?? [], ({ queue, resource, jobs, first, limits }) => ({
    Resource: resourceLink(resource),
    Queue: queue,
    Jobs: whole(jobs),
    Tenant: known(first[0]?.share, tenantOf),
    Set: limitsInWords(limits),
    'First jobs': list(first.map(inLine)),
  }))
}

const inLine = (entry) =>
  entry.state === 'active'
    ? `${jobName(entry)} is running`
    : `${jobName(entry)} (${entry.state}) waits for ${entry.waitsFor}`

const tenantOf = ({ tenant, weight }) => (weight === 1 ? tenant : `${tenant}, weight ${weight}`)

function linesSummary({ problem, lines, total, truncated }, search) {
  if (problem !== undefined) return `Not known. ${problem}`
  if (total === 0) return 'No jobs sleep in a line.'
  const which = search === '' ? '' : ' for this search'
  const shown = lines.length === total ? '' : `, ${lines.length} shown${which}`
  const more = truncated ? ' Not all were looked at.' : ''
  return `${count(total, 'line')} in which jobs sleep until it is their turn${shown}.${more}`
}

function drawSeen({ changes: { lapsed, unknown } }) {
  const none = lapsed.length === 0 ? 'No lease has run out.' : ''
  tell('seen-summary', unknown === undefined ? none : `Not known: ${unknown}.`)
  rows('lapsed', lapsed, ({ resource, holder, at }) => ({
    Resource: resourceLink(resource),
    Holder: holder,
    'Gone at': clockTime(at),
  }))
  say('lapsed', lapsed.length === 0 ? '' : `A lease ran out: ${lapsed[0].resource}`)
}
