/** One resource from all sides. The address says which, so that it can be shared. */
import { buttons, mayAct } from './act.js'
import { drawJob, jobActs, jobLink, jobName } from './job.js'
import { byId, setText, syncRows } from './rows.js'
import { clockTime, duration, known, limitsInWords } from './words.js'

/** The link that opened it, for the way back. */
let opener

const openResource = () => new URLSearchParams(location.hash.slice(1)).get('resource')

async function drawResource() {
  const name = openResource()
  const section = byId('resource')
  if (name === null || name === '') {
    section.hidden = true
    return
  }
  const answer = await fetch(`resource?name=${encodeURIComponent(name)}`)
  if (!answer.ok || openResource() !== name) return
  const detail = await answer.json()
  setText(byId('resource-title'), name)
  byId('resource-why').hidden = detail.why === undefined
  setText(byId('resource-why'), detail.why ?? '')
  setText(byId('resource-holder'), holderOf(detail))
  const release = { label: 'Release', action: 'release', resource: name }
  buttons([detail.holder && release]).update(byId('resource-release'))
  byId('resource-settings').hidden = !mayAct() || detail.queues.length === 0
  syncRows(
    'resource-masters',
    detail.masters,
    ({ master }) => master,
    ({ master, holder, ttlMs, counter, problem }) => ({
      Server: master,
      Holder: problem === undefined ? holder : `does not answer: ${problem}`,
      'Time left': known(ttlMs, duration),
      'Largest fencing token': known(counter, String),
    }),
  )
  drawQueues(name, detail.queues)
  drawLine(detail)
  syncRows(
    'resource-ended',
    detail.ended,
    jobName,
    ({ outcome, endedAt, tookMs, reason, ...job }) => ({
      Job: jobLink(job),
      Outcome: outcome,
      Ended: clockTime(endedAt),
      Took: duration(tookMs),
      Reason: reason === '' ? undefined : reason,
    }),
  )
  section.hidden = false
}

/** Queues in which it has jobs or settings; all of them for one who may set something. */
function drawQueues(resource, queues) {
  const isUsed = ({ jobs, limits }) => jobs > 0 || Object.keys(limits).length > 0
  syncRows(
    'resource-queues',
    queues.filter((one) => mayAct() || isUsed(one)),
    ({ queue }) => queue,
    ({ queue, jobs, limits }) => ({
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
    }),
  )
}

const slotsWords = (slots) =>
  `It has slots: ${slots.map(({ resource, holder, state }) => `${resource} ${state} by ${holder}`).join('; ')}.`

/** Each slot has its holder. */
const holderOf = ({ holder, slots, holding }) =>
  holder === undefined && slots.length > 0 ? slotsWords(slots) : `${holding}.`

function drawLine({ line, missing }) {
  const entries = Array.isArray(line) ? line : []
  syncRows(
    'resource-line',
    entries,
    jobName,
    ({ state, waitsFor, addedAt, stepsDone, ...entry }) => ({
      Job: jobLink(entry),
      State: state,
      'Waits for':
        stepsDone === undefined ? waitsFor : `${waitsFor}; steps done: ${stepsDone.join(', ')}`,
      Joined: clockTime(addedAt),
      Actions: jobActs({ ...entry, state, holdsLine: state === 'failed' }),
    }),
  )
  const note = byId('resource-note')
  note.hidden = entries.length > 0 && missing === undefined
  if (line === undefined) setText(note, 'Its line is not known: name the queue’s Redis.')
  else if (missing !== undefined) setText(note, `Its line may have more jobs: ${missing}`)
  else if (Array.isArray(line)) setText(note, 'No jobs waiting.')
  else setText(note, `Its line is not known: ${line.problem}`)
}

/** Closes what is open. */
function close() {
  history.pushState(null, '', location.pathname + location.search)
  for (const panel of PANELS) byId(panel).hidden = true
  const back = opener?.isConnected ? opener : byId('leases-title')
  back.focus()
}

/** What the address opens. */
export const drawPanels = () => Promise.all([drawResource(), drawJob()])

async function chosen() {
  await drawPanels()
  const panel = PANELS.find((one) => !byId(one).hidden)
  if (panel !== undefined) byId(`${panel}-title`).focus()
}

const PANELS = ['resource', 'job']

export function openable() {
  for (const panel of PANELS) byId(`${panel}-close`).addEventListener('click', close)
  document.addEventListener('keydown', ({ key }) => {
    if (key === 'Escape' && PANELS.some((panel) => !byId(panel).hidden)) close()
  })
  document.addEventListener('click', ({ target }) => {
    const link = target.closest('a[href^="#"]')
    if (link !== null && !PANELS.some((panel) => byId(panel).contains(link))) opener = link
  })
  addEventListener('hashchange', () => void chosen())
}
