/** One resource from all sides. The address says which, so that it can be shared. */
import { byId, setText, syncRows } from './rows.js'
import { jobName } from './sections.js'
import { clockTime, count, duration, known } from './words.js'

/** The link that opened it, for the way back. */
let opener

const openResource = () => new URLSearchParams(location.hash.slice(1)).get('resource')

export async function drawResource() {
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
  setText(byId('resource-holder'), holderOf(detail))
  syncRows(
    'resource-masters',
    detail.masters,
    ({ master }) => master,
    ({ master, holder, ttlMs, counter, problem }) => [
      master,
      problem === undefined ? holder : `does not answer: ${problem}`,
      known(ttlMs, duration),
      known(counter, String),
    ],
  )
  drawLine(detail.line)
  section.hidden = false
}

const slotsWords = (slots) =>
  `It has slots: ${slots.map(({ resource, holder, state }) => `${resource} ${state} by ${holder}`).join('; ')}.`

function holderOf({ holder, answered, masters, quorum, state, slots }) {
  if (holder !== undefined) {
    const { name, fencingToken, freeInMs } = holder
    return `Held by ${name} with fencing token ${fencingToken}; free in ${duration(freeInMs)} unless it is extended.`
  }
  if (slots.length > 0) return slotsWords(slots)
  if (state === 'unknown' && answered >= quorum) {
    return 'It may be held: masters that do not answer could have the missing votes.'
  }
  return answered < quorum
    ? `Not known: ${answered} of ${count(masters.length, 'master')} answer, ${quorum} are needed.`
    : 'It is free.'
}

function drawLine(line) {
  const entries = Array.isArray(line) ? line : []
  syncRows(
    'resource-line',
    entries,
    jobName,
    ({ state, waitsFor, addedAt, stepsDone, ...entry }) => [
      jobName(entry),
      state,
      stepsDone === undefined ? waitsFor : `${waitsFor}; steps done: ${stepsDone.join(', ')}`,
      clockTime(addedAt),
    ],
  )
  const note = byId('resource-note')
  note.hidden = entries.length > 0
  if (line === undefined) setText(note, 'Its line is not known: name the queue’s Redis.')
  else if (Array.isArray(line)) setText(note, 'No jobs waiting.')
  else setText(note, `Its line is not known: ${line.problem}`)
}

function closeResource() {
  history.pushState(null, '', location.pathname + location.search)
  byId('resource').hidden = true
  const back = opener?.isConnected ? opener : byId('leases-title')
  back.focus()
}

async function resourceChosen() {
  await drawResource()
  if (!byId('resource').hidden) byId('resource-title').focus()
}

export function openable() {
  byId('resource-close').addEventListener('click', closeResource)
  document.addEventListener('keydown', ({ key }) => {
    if (key === 'Escape' && !byId('resource').hidden) closeResource()
  })
  document.addEventListener('click', ({ target }) => {
    if (target.closest('a[href^="#resource="]')) opener = target.closest('a')
  })
  addEventListener('hashchange', () => void resourceChosen())
}
