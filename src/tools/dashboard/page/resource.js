/** One resource from all sides. */
import { buttons, mayAct } from './act.js'
import { jobActs, jobLink } from './job.js'
import { byId, rows, tell } from './rows.js'
import { clockTime, duration, known, limitsInWords } from './words.js'

/** What the server is asked; undefined where the address names no resource. */
export const resourcePath = (address) =>
  address.get('resource')
    ? `resource?name=${encodeURIComponent(address.get('resource'))}`
    : undefined

export async function drawResource(answer, address) {
  const resource = address.get('resource')
  tell('resource-title', resource)
  if (!answer.ok) return tell('resource-why', await answer.text())
  const detail = await answer.json()
  const { service, holder, holding, slots, masters, queues, ended } = detail
  tell('resource-why', detail.why)
  // Each slot has its holder.
  const isSlotted = holder === undefined && slots.length > 0
  tell('resource-holder', isSlotted ? slotsInWords(slots) : `${holding}.`)
  // Only lock masters can be told to.
  const mayRelease = holder !== undefined && service === undefined
  const release = mayRelease && buttons([{ label: 'Release', action: 'release', resource }])
  tell('resource-release', release || undefined)
  byId('resource-settings').hidden = !mayAct() || queues.length === 0
  rows('resource-masters', masters, ({ master, holder, ttlMs, counter, problem }) => ({
    Server: master,
    Holder: problem === undefined ? holder : `does not answer: ${problem}`,
    'Time left': known(ttlMs, duration),
    'Largest fencing token': known(counter, String),
  }))
  drawQueues(resource, queues)
  drawLine(detail)
  rows('resource-ended', ended, ({ outcome, startedAt, endedAt, failedReason, ...job }) => ({
    Job: jobLink(job),
    Outcome: outcome,
    Ended: clockTime(endedAt),
    Took: known(startedAt, (since) => duration(endedAt - since)),
    Reason: failedReason,
  }))
}

const slotsInWords = (slots) =>
  `It has slots: ${slots.map(({ resource, holder, state }) => `${resource} ${state} by ${holder}`).join('; ')}.`

/** Queues in which it has jobs or settings; all of them for one who may set something. */
function drawQueues(resource, queues) {
  const isUsed = ({ jobs, limits }) => jobs > 0 || Object.keys(limits).length > 0
  const shown = queues.filter((one) => mayAct() || isUsed(one))
  rows('resource-queues', shown, ({ queue, jobs, limits }) => ({
    Queue: queue,
    Jobs: String(jobs),
    Set: limitsInWords(limits),
    Actions: buttons([
      limits.paused || limits.asleepUntil
        ? { label: 'Resume', action: 'resume', queue, resource }
        : { label: 'Pause', action: 'pause', queue, resource },
      { label: 'Set slots', action: 'slots', queue, resource },
      limits.slots && { label: 'Reset slots', action: 'slots', slots: 0, queue, resource },
      { label: 'Set rate', action: 'rate', queue, resource },
      limits.rate && { label: 'Reset rate', action: 'rate', limit: 0, queue, resource },
    ]),
  }))
}

function drawLine({ line, missing }) {
  const entries = Array.isArray(line) ? line : []
  rows('resource-line', entries, ({ state, waitsFor, addedAt, stepsDone, ...entry }) => ({
    Job: jobLink(entry),
    State: state,
    'Waits for':
      stepsDone === undefined ? waitsFor : `${waitsFor}; steps done: ${stepsDone.join(', ')}`,
    Joined: clockTime(addedAt),
    Actions: jobActs({ ...entry, state, holdsLine: state === 'failed' }),
  }))
  tell('resource-note', lineNote(line, missing))
}

/** What its table does not say. */
function lineNote(line, missing) {
  if (line === undefined) return 'Its line is not known: name the queue’s Redis.'
  if (missing !== undefined) return `Its line may have more jobs: ${missing}`
  if (!Array.isArray(line)) return `Its line is not known: ${line.problem}`
  return line.length === 0 ? 'No jobs waiting.' : undefined
}
