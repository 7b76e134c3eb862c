/** What there is to see of the fleet: one function for each section of the page. */
import {
  byId,
  drawRates,
  element,
  link,
  list,
  plain,
  resourceLink,
  say,
  setText,
  stateOf,
  syncRows,
} from './rows.js'
import { clockTime, count, duration, limitsInWords, REASONS } from './words.js'

export function drawFleet({ quorum, voting, margin, masters, findings: found }) {
  const spare =
    margin < 0
      ? 'No lease can be granted.'
      : margin === 0
        ? 'None may fail.'
        : `${margin === 1 ? 'One more' : `${margin} more`} may fail.`
  const summary = `${voting} of ${count(masters.length, 'master')} vote, ${quorum} needed. ${spare}`
  setText(byId('fleet-summary'), summary)
  const worse = margin === 0 || voting < masters.length
  byId('fleet-summary').dataset.state = margin < 0 ? 'bad' : worse ? 'soon' : 'good'
  say('fleet', summary)
  const target = byId('findings')
  const shown = found.filter(({ severity }) => severity !== 'note')
  const wanted = JSON.stringify(shown)
  if (target.dataset.shown !== wanted) {
    target.dataset.shown = wanted
    target.replaceChildren(...grouped(shown).map(findings))
  }
  syncRows(
    byId('masters'),
    masters,
    ({ master }) => master,
    ({ master, state, version, clockOffMs, roundTripMs, uptimeMs }) => [
      plain(master),
      stateOf(state),
      plain(version ?? '–'),
      plain(clockOffMs === undefined ? '–' : signed(clockOffMs)),
      plain(roundTripMs === undefined ? '–' : `${roundTripMs.toFixed(1)} ms`),
      plain(uptimeMs === undefined ? '–' : duration(uptimeMs)),
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
    { 'data-severity': severity },
    ...group.map(({ where, fact }) =>
      element(
        'span',
        { className: 'fact' },
        element('strong', { textContent: severity }),
        ` ${where}: ${fact}`,
      ),
    ),
    element('span', { className: 'fix', textContent: `Fix: ${fix}` }),
  )
}

export function drawLeases(leases, withSteps, { search, lines, bullBoard }) {
  const { rows, matching, truncated, masters, known, sort, page, pages } = leases
  const which = search === '' ? '' : ` with “${search}” in the name`
  const more = truncated
    ? 'There are or may be more than were looked at: search for a part of the name.'
    : ''
  const counted = `${count(matching, 'lease')}${which}`
  setText(
    byId('leases-summary'),
    known
      ? `${counted}. ${more}`
      : `The holders are not known: too few masters answer. Seen on those that do: ${counted}. ${more}`,
  )
  byId('leases-summary').dataset.state = known ? '' : 'bad'
  drawPager(page, pages)
  byId('sort').value = sort
  const table = byId('leases').closest('table')
  table.hidden = rows.length === 0
  table.dataset.steps = withSteps ? 'known' : 'unknown'
  table.dataset.jobs = lines === null ? 'unknown' : 'known'
  setText(
    byId('steps-note'),
    withSteps
      ? 'Steps are shown for the leases of this process.'
      : 'Only a worker’s own process knows the step of a job. Mount this page there to see it.',
  )
  syncRows(
    byId('leases'),
    rows,
    ({ resource, holder }) => `${resource}\n${holder}`,
    ({ resource, state, holder, fencingToken, freeInMs, votes, step, job }) => [
      resourceLink(resource),
      stateOf(state),
      plain(holder),
      jobCell(job, bullBoard),
      plain(step ?? '–'),
      plain(duration(freeInMs)),
      plain(`${votes} of ${masters}`),
      plain(fencingToken === undefined ? '–' : String(fencingToken)),
    ],
  )
}

/** The job under a lease, and how long it has run. */
function jobCell(job, bullBoard) {
  if (job === undefined) return plain('–')
  const { queue, jobId, since } = job
  const text = `${jobName(job)}, for ${duration(Math.max(0, Date.now() - since))}`
  if (bullBoard === null) return plain(text)
  const address = `${bullBoard}/queue/${encodeURIComponent(queue)}/${encodeURIComponent(jobId)}`
  return link(address, text)
}

function drawPager(page, pages) {
  byId('pager').hidden = pages < 2
  setText(byId('page-number'), `Page ${page} of ${pages}`)
  byId('previous').disabled = page <= 1
  byId('next').disabled = page >= pages
}

export function drawQueues(queues) {
  const known = Array.isArray(queues) && queues.length > 0
  byId('queues-table').hidden = !known
  const summary = byId('queues-summary')
  summary.hidden = known
  if (!known) setText(summary, queuesSummary(queues))
  syncRows(
    byId('queues'),
    known ? queues : [],
    ({ queue }) => queue,
    ({ queue, waiting, delayed, active, failed, done }) => [
      plain(queue),
      plain(whole(waiting)),
      plain(whole(delayed)),
      plain(whole(active)),
      stateOf(failed > 0 ? 'soon' : '', whole(failed)),
      plain(whole(done)),
    ],
  )
}

const whole = (number) => number.toLocaleString('en')

function queuesSummary(queues) {
  if (queues === null) return 'Queues are not known: name their Redis (--queue-redis, queueRedis).'
  return queues.problem === undefined
    ? 'There is no queue yet.'
    : `Queues are not known: their Redis says: ${queues.problem}`
}

export const jobName = ({ queue, jobId }) => `${queue} ${jobId}`
const inLine = (entry) =>
  entry.state === 'active'
    ? `${jobName(entry)} is running`
    : `${jobName(entry)} (${entry.state}) waits for ${entry.waitsFor}`

export function drawLines(lines, search) {
  const known = lines?.lines !== undefined
  byId('lines-table').hidden = !known || lines.lines.length === 0
  setText(byId('lines-summary'), linesSummary(lines, search))
  syncRows(
    byId('lines'),
    known ? lines.lines : [],
    ({ resource }) => resource,
    ({ resource, jobs, first, limits }) => [
      resourceLink(resource),
      plain(jobs.toLocaleString('en')),
      plain(tenantOf(first[0]?.share)),
      plain(limitsInWords(limits)),
      list(first.map(inLine)),
    ],
  )
}

const tenantOf = (share) =>
  share === undefined
    ? '–'
    : `${share.tenant}${share.weight === 1 ? '' : `, weight ${share.weight}`}`

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

export function drawSeen({ overMs, began, ended, lapsed, unknown }) {
  setText(byId('seen-summary'), seenSummary(overMs, unknown))
  const known = unknown === undefined && overMs > 0
  drawRates(
    byId('seen-rates'),
    known ? { 'began, at least': began, 'ended, at least': ended } : {},
    overMs,
  )
  byId('lapsed-table').hidden = lapsed.length === 0
  syncRows(
    byId('lapsed'),
    lapsed,
    ({ resource, holder, at }) => `${resource}\n${holder}\n${at}`,
    ({ resource, holder, at }) => [resourceLink(resource), plain(holder), plain(clockTime(at))],
  )
  say('lapsed', lapsed.length === 0 ? '' : `A lease ran out: ${lapsed[0].resource}`)
}

function seenSummary(overMs, unknown) {
  if (unknown !== undefined) return `Rates are not known: ${unknown}.`
  if (overMs === 0) return 'Rates are known after the second look.'
  return `Leases over the last ${duration(overMs)}. A lease that began and ended between two looks was not seen.`
}

export function drawProcess(report) {
  const losses = report?.losses ?? []
  byId('losses-table').hidden = losses.length === 0
  setText(byId('process-summary'), processSummary(report))
  drawRates(byId('process-rates'), report?.counts ?? {}, report?.overMs ?? 0)
  syncRows(
    byId('losses'),
    losses,
    ({ fencingToken, at }) => `${fencingToken} ${at}`,
    ({ resources, reason, fencingToken, at }) => [
      plain(resources.join(' + ')),
      plain(REASONS[reason] ?? reason),
      plain(String(fencingToken)),
      plain(clockTime(at)),
    ],
  )
  say('losses', losses.length === 0 ? '' : `A lease was lost: ${losses[0].resources.join(' + ')}`)
}

function processSummary(report) {
  if (report === null) {
    return (
      'No Redlock or worker runs in the process that serves this page. Only the workers’ processes know exact rates, and why a ' +
      'lease was lost: mount this page there, or scrape their /metrics.'
    )
  }
  return `Attempts, leases and jobs over the last ${duration(report.overMs)}.`
}
