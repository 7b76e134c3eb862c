/** What there is to see of the fleet: one function for each section of the page. */
import { jobActs, jobLink, jobName } from './job.js'
import {
  byId,
  element,
  link,
  list,
  nameColumn,
  resourceLink,
  say,
  setText,
  stateOf,
  syncRows,
  tableOf,
} from './rows.js'
import { clockTime, count, duration, known, limitsInWords, perSecond, whole } from './words.js'

/** The first thing that one sees: what is wrong, worst first, and what to do. */
export function drawNow({ fleet, queues }) {
  const shown = fleet.findings.filter(({ severity }) => severity !== 'note')
  const groups = grouped(shown)
  const areKnown = Array.isArray(queues)
  const [worst] = groups
  const summary = byId('now-summary')
  summary.dataset.state =
    worst === undefined
      ? areKnown
        ? 'good'
        : 'soon'
      : worst[0].severity === 'error'
        ? 'bad'
        : 'soon'
  const locks = fleet.service ?? 'the masters'
  const nothing = areKnown ? 'Nothing is wrong.' : `Nothing is wrong with ${locks}.`
  setText(summary, worst === undefined ? nothing : `${count(groups.length, 'thing')} to see to:`)
  const target = byId('findings')
  const wanted = JSON.stringify(shown)
  if (target.dataset.shown === wanted) return
  target.dataset.shown = wanted
  target.replaceChildren(...groups.map(findings))
}

/** Jobs that were searched for by id. */
export function drawFound({ jobs, search }) {
  byId('found').hidden = jobs.length === 0
  setText(byId('found-title'), `Jobs with the id “${search}”`)
  syncRows('found-jobs', jobs, jobName, ({ state, why, resources, ...job }) => [
    jobLink(job),
    state,
    resources.length === 0 ? undefined : resourceLink(resources[0]),
    why,
  ])
}

export function drawFailed({ failed, queues }) {
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
    ({ resources, reason, attempts, failedAt, holdsLine, ...job }) => [
      jobLink(job),
      resources.length === 0 ? undefined : resourceLink(resources[0]),
      holdsLine ? stateOf('soon', 'holds its line') : undefined,
      reason === '' ? undefined : reason,
      String(attempts),
      clockTime(failedAt),
      jobActs({ ...job, state: 'failed', holdsLine }),
    ],
  )
}

/** What operators did. */
export function drawDone(done) {
  byId('acted').hidden = done.length === 0
  syncRows(
    'done',
    done,
    ({ at, what }) => `${at}\n${what}`,
    ({ at, who, what, ok, outcome }) => [
      what,
      who,
      stateOf(ok ? 'good' : 'bad', ok ? 'done' : 'not done'),
      outcome,
      clockTime(at),
    ],
  )
}

export function drawFleet({ service, verdict, masters }) {
  setText(byId('fleet-title'), service === null ? 'Fleet' : 'Lock service')
  setText(byId('fleet-summary'), verdict.text)
  byId('fleet-summary').dataset.state = verdict.state
  say('fleet', verdict.text)
  tableOf('masters').ariaLabel = service === null ? 'Lock masters' : `Servers of ${service}`
  nameColumn('masters', 0, service === null ? 'Master' : 'Server')
  syncRows(
    'masters',
    masters,
    ({ master }) => master,
    ({ master, state, role, version, clockOffMs, roundTripMs, uptimeMs }) => [
      master,
      stateOf(state, role),
      version,
      known(clockOffMs, signed),
      known(roundTripMs, (ms) => `${ms.toFixed(1)} ms`),
      known(uptimeMs, duration),
    ],
  )
}

const signed = (ms) => (ms === 0 ? '0 ms' : `${ms < 0 ? '−' : '+'}${duration(Math.abs(ms))}`)

/** What is mended in the same way is shown together: five dead masters need one line of advice. */
function grouped(findings) {
  const groups = new Map()
  for (const finding of findings) {
    const key = `${finding.severity}\n${finding.code}\n${finding.fix}`
    groups.set(key, [...(groups.get(key) ?? []), finding])
  }
  return [...groups.values()]
}

function findings(group) {
  const [{ severity, fix }] = group
  return element(
    'li',
    {},
    ...group.map(({ where, fact }) =>
      element(
        'span',
        {},
        element('strong', { 'data-state': severity, textContent: severity }),
        ` ${where}: ${fact}`,
      ),
    ),
    element('span', { className: 'quiet', textContent: `Fix: ${fix}` }),
  )
}

export function drawLeases(leases, { search, lines, bullBoard, fleet }) {
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
    leases.known ? `${counted}. ${more}` : `The holders are not known: ${leases.problem}.${seen}`,
  )
  byId('leases-summary').dataset.state = leases.known ? '' : 'bad'
  drawPager(page, pages)
  byId('sort').value = sort
  tableOf('leases').dataset.jobs = lines === null ? 'unknown' : 'known'
  tableOf('leases').dataset.votes = fleet.service === null ? 'counted' : 'none'
  if (fleet.service !== null) byId('sort').querySelector('[value=votes]')?.remove()
  syncRows(
    'leases',
    rows,
    ({ resource, holder }) => `${resource}\n${holder}`,
    ({ resource, state, holder, fencingToken, freeInMs, votes, job }) => [
      resourceLink(resource),
      stateOf(state),
      holder,
      known(job, (its) => jobCell(its, bullBoard)),
      duration(freeInMs),
      `${votes} of ${masters}`,
      known(fencingToken, String),
    ],
  )
}

/** The job under a lease, and how long it has run. */
function jobCell(job, bullBoard) {
  const { queue, jobId, since } = job
  const text = `${jobName(job)}, for ${duration(Math.max(0, Date.now() - since))}`
  if (bullBoard === null) return jobLink(job, text)
  const address = `${bullBoard}/queue/${encodeURIComponent(queue)}/${encodeURIComponent(jobId)}`
  return link(address, text)
}

function drawPager(page, pages) {
  byId('pager').hidden = pages < 2
  setText(byId('page-number'), `Page ${page} of ${pages}`)
  byId('previous').disabled = page <= 1
  byId('next').disabled = page >= pages
}

export function drawQueues(queues, rates) {
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
      return [
        queue,
        known(rateOf(queue)?.completed, (number) => atLeast(perSecond(number, 1_000))),
        atLeast(whole(waiting)),
        atLeast(whole(delayed)),
        atLeast(whole(active)),
        stateOf(failed > 0 ? 'soon' : '', atLeast(whole(failed))),
        atLeast(whole(done)),
      ]
    },
  )
}

function queuesSummary(queues) {
  if (queues === null) return 'Queues are not known: name their Redis (--queue-redis, queueRedis).'
  return queues.problem === undefined
    ? 'There is no queue yet.'
    : `Queues are not known: their Redis says: ${queues.problem}`
}

const inLine = (entry) =>
  entry.state === 'active'
    ? `${jobName(entry)} is running`
    : `${jobName(entry)} (${entry.state}) waits for ${entry.waitsFor}`

export function drawLines(lines, search) {
  setText(byId('lines-summary'), linesSummary(lines, search))
  syncRows(
    'lines',
    lines?.lines ?? [],
    ({ queue, resource }) => `${queue}\n${resource}`,
    ({ queue, resource, jobs, first, limits }) => [
      resourceLink(resource),
      queue,
      whole(jobs),
      known(first[0]?.share, tenantOf),
      limitsInWords(limits),
      list(first.map(inLine)),
    ],
  )
}

const tenantOf = ({ tenant, weight }) => (weight === 1 ? tenant : `${tenant}, weight ${weight}`)

function linesSummary(lines, search) {
  if (lines === null) return 'Not known: name the queue’s Redis (--queue-redis, queueRedis).'
  if (lines.problem !== undefined) return `Not known: the queue’s Redis says: ${lines.problem}`
  const { total, truncated } = lines
  if (total === 0) return 'No jobs sleep in a line.'
  const shown =
    lines.lines.length === total
      ? ''
      : `, ${lines.lines.length} shown${search === '' ? '' : ' for this search'}`
  const more = truncated ? ' Not all were looked at.' : ''
  return `${count(total, 'line')} in which jobs sleep until it is their turn${shown}.${more}`
}

export function drawSeen({ lapsed, unknown }) {
  setText(byId('seen-summary'), unknown === undefined ? '' : `Not known: ${unknown}.`)
  syncRows(
    'lapsed',
    lapsed,
    ({ resource, holder, at }) => `${resource}\n${holder}\n${at}`,
    ({ resource, holder, at }) => [resourceLink(resource), holder, clockTime(at)],
  )
  say('lapsed', lapsed.length === 0 ? '' : `A lease ran out: ${lapsed[0].resource}`)
}
