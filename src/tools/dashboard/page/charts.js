/** Small charts of the last minutes: what each number is now, and how it came there. */
import { jobLink } from './job.js'
import { byId, element, setText } from './rows.js'
import { duration, known, perSecond, whole } from './words.js'

const SVG = 'http://www.w3.org/2000/svg'
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
  const target = byId('charts')
  if (target.children.length === 0) {
    const oldest = element('dt', { textContent: 'oldest waiting' })
    target.append(...CHARTS.map(makeChart), element('div', {}, oldest, element('dd')))
  }
  for (const [index, [, valueOf, words]] of CHARTS.entries()) {
    drawChart(target.children[index], history, valueOf, words)
  }
  drawOldest(target.lastElementChild, oldest, Array.isArray(queues))
}

function drawOldest(tile, oldest, areKnown) {
  const value = tile.lastElementChild
  if (oldest === null) {
    value.replaceChildren(areKnown ? 'none' : 'not known')
    return
  }
  const { make, update } = jobLink(oldest, duration(Math.max(0, Date.now() - oldest.since)))
  if (value.firstElementChild === null) value.replaceChildren(make())
  update(value.firstElementChild)
}

function makeChart([name]) {
  const svg = document.createElementNS(SVG, 'svg')
  svg.setAttribute('viewBox', `0 0 ${WIDTH} ${HEIGHT}`)
  svg.setAttribute('preserveAspectRatio', 'none')
  svg.setAttribute('aria-hidden', 'true')
  svg.append(document.createElementNS(SVG, 'path'))
  const term = element('dt', { textContent: name })
  return element('div', {}, term, element('dd', {}, element('span'), svg))
}

function drawChart(chart, history, valueOf, words) {
  const points = history.map((sample) => ({ at: sample.at, value: valueOf(sample) }))
  setText(chart.querySelector('span'), known(points.at(-1)?.value, words) ?? 'not known')
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
  chart.querySelector('path').setAttribute('d', path.join(''))
}
