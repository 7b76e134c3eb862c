/** What there is to see of the fleet: one function for each section of the page. */
import {
  byId,
  drawRates,
  element,
  list,
  plain,
  resourceLink,
  say,
  setText,
  stateOf,
  syncRows,
} from './rows.js'
import { clockTime, count, duration, REASONS } from './words.js'

export function drawFleet({ quorum, voting, margin, masters, findings }) {
  const spare =
    margin < 0
      ? 'No lease can be taken.'
      : margin === 0
        ? 'None may fail.'
        : `${margin === 1 ? 'One more' : `${margin} more`} may fail.`
  const summary = `${voting} of ${count(masters.length, 'master')} vote, ${quorum} needed. ${spare}`
  setText(byId('fleet-summary'), summary)
  const worse = margin === 0 || voting < masters.length
  byId('fleet-summary').dataset.state = margin < 0 ? 'bad' : worse ? 'soon' : 'good'
  say('fleet', summary)
  const target = byId('findings')
  const shown = findings.filter(({ severity }) => severity !== 'note')
  const wanted = JSON.stringify(shown)
  if (target.dataset.shown !== wanted) {
    target.dataset.shown = wanted
    target.replaceChildren(...shown.map(finding))
  }
  syncRows(
    byId('masters'),
    masters,
    ({ master }) => master,
    ({ master, state, version, clockOffMs, roundTripMs, uptimeMs }) => [
      ['Master', plain(master)],
      ['State', stateOf(state)],
      ['Version', plain(version ?? '–')],
      ['Clock', plain(clockOffMs === undefined ? '–' : signed(clockOffMs))],
      ['Round trip', plain(roundTripMs === undefined ? '–' : `${roundTripMs.toFixed(1)} ms`)],
      ['Up', plain(uptimeMs === undefined ? '–' : duration(uptimeMs))],
    ],
  )
}

const signed = (ms) => (ms === 0 ? '0 ms' : `${ms < 0 ? '−' : '+'}${duration(Math.abs(ms))}`)

function finding({ severity, where, fact, fix }) {
  return element(
    'li',
    { 'data-severity': severity },
    element('strong', { textContent: severity }),
    ` ${where}: ${fact}`,
    element('span', { className: 'fix', textContent: `Fix: ${fix}` }),
  )
}

export function drawLeases({ rows, matching, truncated, masters }, withSteps, search) {
  const which = search === '' ? '' : ` with “${search}” in the name`
  const shown = rows.length < matching ? `, ${rows.length} shown` : ''
  const more = truncated
    ? 'There are or may be more than were looked at: search for a part of the name.'
    : ''
  setText(byId('leases-summary'), `${count(matching, 'lease')}${which}${shown}. ${more}`)
  const table = byId('leases').closest('table')
  table.hidden = rows.length === 0
  table.dataset.steps = withSteps ? 'known' : 'unknown'
  setText(
    byId('steps-note'),
    withSteps
      ? 'Steps are known of the leases of this process.'
      : 'Which step a job is at is known in its worker’s process alone: mount this page there to see it.',
  )
  syncRows(
    byId('leases'),
    rows,
    ({ resource, holder }) => `${resource}\n${holder}`,
    ({ resource, state, holder, fencingToken, freeInMs, votes, step }) => [
      ['Resource', resourceLink(resource)],
      ['State', stateOf(state)],
      ['Holder', plain(holder)],
      ['Step', plain(step ?? '–')],
      ['Time left', plain(duration(freeInMs))],
      ['Votes', plain(`${votes} of ${masters}`)],
      ['Fencing token', plain(fencingToken === undefined ? '–' : String(fencingToken))],
    ],
  )
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
    ({ resource, jobs, first }) => [
      ['Resource', resourceLink(resource)],
      ['Jobs', plain(jobs.toLocaleString('en'))],
      ['First jobs', list(first.map(inLine))],
    ],
  )
}

function linesSummary(lines, search) {
  if (lines === null) return 'Not known: no queue is named (--queue-redis, queueRedis).'
  if (lines.problem !== undefined) return `Not known: the queue’s Redis says: ${lines.problem}`
  const { total, truncated } = lines
  if (total === 0) return 'Nobody waits in a line.'
  const shown =
    lines.lines.length === total
      ? ''
      : `, ${lines.lines.length} shown${search === '' ? '' : ' for this search'}`
  return `${count(total, 'line')} in which jobs sleep until it is their turn${shown}.${truncated ? ' Not all were looked at.' : ''}`
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
    ({ resource, holder, at }) => [
      ['Resource', resourceLink(resource)],
      ['Holder', plain(holder)],
      ['Gone at', plain(clockTime(at))],
    ],
  )
  say('lapsed', lapsed.length === 0 ? '' : `A lease ran out: ${lapsed[0].resource}`)
}

function seenSummary(overMs, unknown) {
  if (unknown !== undefined) return `Rates are not known: ${unknown}.`
  if (overMs === 0) return 'Rates are known after the second look.'
  return `Leases over the last ${duration(overMs)}. One that began and ended between two looks was not seen.`
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
      ['Resource', plain(resources.join(' + '))],
      ['Reason', plain(REASONS[reason] ?? reason)],
      ['Fencing token', plain(String(fencingToken))],
      ['Lost at', plain(clockTime(at))],
    ],
  )
  say('losses', losses.length === 0 ? '' : `A lease was lost: ${losses[0].resources.join(' + ')}`)
}

function processSummary(report) {
  if (report === null) {
    return (
      'No Redlock or worker runs in the process that serves this page. Losses with their reasons and exact rates are known in the ' +
      'workers’ processes: mount this page there, or scrape their /metrics.'
    )
  }
  return `Attempts, leases and jobs over the last ${duration(report.overMs)}.`
}
