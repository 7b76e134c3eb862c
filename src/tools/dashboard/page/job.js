/** One job from all sides. */
import { buttons } from './act.js'
import { byId, link, resourceLink, rows, tell } from './rows.js'
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

/** What the server is asked; undefined where the address names no job. */
export const jobPath = (address) =>
  address.has('queue') && address.has('job')
    ? `job?${new URLSearchParams({ queue: address.get('queue'), id: address.get('job') })}`
    : undefined

export async function drawJob(answer, address) {
  tell('job-title', `Job ${address.get('job')} of ${address.get('queue')}`)
  const detail = answer.ok ? await answer.json() : undefined
  tell('job-why', detail?.why ?? (await answer.text()), detail?.state === 'failed' ? 'bad' : '')
  rows('job-facts', detail === undefined ? [] : factsOf(detail), ([Fact, Value]) => ({
    Fact,
    Value,
  }))
  const stack = detail?.stacks.join('\n\n') ?? ''
  byId('job-stack').hidden = stack === ''
  tell('job-stack-text', stack)
}

function factsOf(detail) {
  const { name, state, resources, attempts, log, stepsDone } = detail
  const { addedAt, startedAt, endedAt, failedReason } = detail
  const ago = (ms) => `${clockTime(ms)}, ${duration(Date.now() - ms)} ago`
  return [
    ['State', state],
    ['Name', name],
    ['Attempts', String(attempts)],
    ['Added', ago(addedAt)],
    ['Started', known(startedAt, ago)],
    ['Ended', known(endedAt, ago)],
    ['Reason', failedReason],
    ['Steps done', stepsDone.join(', ') || undefined],
    ['Log', log.join(' · ') || undefined],
    ...resources.map((resource) => ['Resource', resourceLink(resource)]),
    ['Bull Board', boardLink(detail, 'its data and result')],
    ['Actions', jobActs(detail) || undefined],
  ].filter(([, value]) => value !== undefined)
}
