/** Small charts of the last minutes: what each number is now, and how it came there. */
import { jobLink } from './job.js'
import { byId, element, fill } from './rows.js'
import { duration, known, perSecond, whole } from './words.js'

const WIDTH = 160
const HEIGHT = 40

const CHARTS = [
  ['completed', ({ completed }) => completed, perSecond],
  ['failed', ({ failed }) => failed, perSecond],
  ['waiting', ({ waiting }) => waiting, whole],
  ['running', ({ active }) => active, whole],
  ['leases held', ({ held }) => held, whole],
]

export function drawCharts({ history, oldest, queues }) {
  const none = Array.isArray(queues) ? 'none' : 'not known'
  const age = () => duration(Math.max(0, Date.now() - oldest.since))
  fill(
    byId('charts'),
    ...CHARTS.map(([name, valueOf, words]) => chart(name, history, valueOf, words)),
    tile('oldest waiting', oldest === null ? none : jobLink(oldest, age())),
  )
}

const tile = (name, ...content) =>
  element('div', {}, element('dt', {}, name), element('dd', {}, ...content))

function chart(name, history, valueOf, words) {
  const points = history.map((sample) => ({ at: sample.at, value: valueOf(sample) }))
  const most = Math.max(1, ...points.map(({ value }) => value ?? 0))
  const from = history[0]?.at ?? 0
  const span = Math.max(1, (history.at(-1)?.at ?? 0) - from)
  const path = points.map(({ at, value }, nr) => {
    if (value === undefined) return '' // A gap.
    const pen = points[nr - 1]?.value === undefined ? 'M' : 'L'
    const x = ((at - from) / span) * WIDTH
    const y = HEIGHT - 2 - (value / most) * (HEIGHT - 4)
    return `${pen}${x.toFixed(1)} ${y.toFixed(1)}`
  })
  const box = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none' }
  const line = element('path', { d: path.join('') })
  const now = known(points.at(-1)?.value, words) ?? 'not known'
  return tile(name, now, element('svg', { ...box, 'aria-hidden': 'true' }, line))
}
