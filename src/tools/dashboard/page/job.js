/** One job from all sides. The address says which, so that it can be shared. */
import { buttons } from './act.js'
import { byId, link, resourceLink, setText, syncRows } from './rows.js'
import { clockTime, duration, known } from './words.js'

export const jobName = ({ queue, jobId }) => `${queue} ${jobId}`

export const jobLink = ({ queue, jobId }, text = `${queue} ${jobId}`) =>
  link(`#${new URLSearchParams({ queue, job: jobId })}`, text)

export const jobActs = ({ queue, jobId, state, holdsLine }) =>
  buttons([
    state === 'failed' && { label: 'Retry', action: 'retry', queue, jobId },
    holdsLine && { label: 'Skip', action: 'skip', queue, jobId },
    !['failed', 'completed'].includes(state) && { label: 'Cancel', action: 'cancel', queue, jobId },
  ])

/** Where Bull Board is mounted; null where that is not known. */
let bullBoard = null

export function setBullBoard(address) {
  bullBoard = address
}

/** Undefined without Bull Board. */
export function boardLink({ queue, jobId }, text) {
  if (bullBoard === null) return undefined
  const job = `${encodeURIComponent(queue)}/${encodeURIComponent(jobId)}`
  return link(`${bullBoard}/queue/${job}`, text)
}

const open = () => {
  const params = new URLSearchParams(location.hash.slice(1))
  const [queue, jobId] = [params.get('queue'), params.get('job')]
  return queue === null || jobId === null ? undefined : { queue, jobId }
}

export async function drawJob() {
  const job = open()
  const section = byId('job')
  if (job === undefined) {
    section.hidden = true
    return
  }
  const { queue, jobId } = job
  const answer = await fetch(`job?${new URLSearchParams({ queue, id: jobId })}`)
  const now = open()
  if (now?.queue !== queue || now.jobId !== jobId) return
  setText(byId('job-title'), `Job ${jobId} of ${queue}`)
  section.hidden = false
  if (!answer.ok) {
    setText(byId('job-why'), await answer.text())
    syncRows('job-facts', [], String)
    byId('job-stack').hidden = true
    return
  }
  drawDetail(await answer.json())
}

function drawDetail(detail) {
  const { name, state, why, resources, attempts, log, stepsDone, stacks } = detail
  const { addedAt, startedAt, endedAt, failedReason } = detail
  setText(byId('job-why'), why)
  byId('job-why').dataset.state = state === 'failed' ? 'bad' : ''
  const ago = (ms) => `${clockTime(ms)}, ${duration(Date.now() - ms)} ago`
  const facts = [
    ['State', state],
    ['Name', name],
    ['Attempts', String(attempts)],
    ['Added', ago(addedAt)],
    ['Started', known(startedAt, ago)],
    ['Ended', known(endedAt, ago)],
    ['Reason', failedReason],
    ['Steps done', stepsDone.length === 0 ? undefined : stepsDone.join(', ')],
    ['Log', log.length === 0 ? undefined : log.join(' · ')],
    ...resources.map((resource) => ['Resource', resourceLink(resource), resource]),
    ['Bull Board', boardLink(detail, 'its data and result')],
    ['Actions', jobActs(detail)],
  ].filter(([, value]) => value !== undefined)
  syncRows(
    'job-facts',
    facts,
    ([fact, , key = '']) => `${fact}\n${key}`,
    ([Fact, Value]) => ({ Fact, Value }),
  )
  byId('job-stack').hidden = stacks.length === 0
  setText(byId('job-stack-text'), stacks.join('\n\n'))
}
