/** Small charts of the last minutes: what each number is now, and how it came there. */
import { jobLink } from './job.js'
import { byId, element, setText } from './rows.js'
import { duration, perSecond, whole } from './words.js'

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

export function drawCharts(history, { oldest, queues }) {
  const target = byId('charts')
  if (target.children.length === 0) {
    target.append(...CHARTS.map(makeChart), element('div', {}, element('dt'), element('dd')))
  }
  for (const [index, [name, valueOf, words]] of CHARTS.entries()) {
    drawChart(target.children[index], name, history, valueOf, words)
  }
  drawOldest(target.lastElementChild, oldest, Array.isArray(queues))
}

function drawOldest(tile, oldest, areKnown) {
  const [term, value] = tile.children
  setText(term, 'oldest waiting')
  if (oldest === null) {
    value.replaceChildren(areKnown ? 'none' : 'not known')
    return
  }
  const { make, update } = jobLink(oldest, duration(Math.max(0, Date.now() - oldest.since)))
  if (value.firstElementChild === null) value.replaceChildren(make())
  update(value.firstElementChild)
}

function makeChart() {
  const svg = document.createElementNS(SVG, 'svg')
  svg.setAttribute('viewBox', `0 0 ${WIDTH} ${HEIGHT}`)
  svg.setAttribute('preserveAspectRatio', 'none')
  svg.setAttribute('aria-hidden', 'true')
  svg.append(document.createElementNS(SVG, 'path'))
  return element('div', {}, element('dt'), element('dd', {}, element('span'), svg))
}

function drawChart(chart, name, history, valueOf, words) {
  const points = history.map((sample) => ({ at: sample.at, value: valueOf(sample) ?? null }))
  const last = points.at(-1)?.value ?? null
  const [text] = chart.querySelectorAll('span')
  setText(chart.querySelector('dt'), name)
  setText(text, last === null ? 'not known' : words(last))
  const most = Math.max(1, ...points.map(({ value }) => value ?? 0))
  const from = history[0]?.at ?? 0
  const span = Math.max(1, (history.at(-1)?.at ?? 0) - from)
  chart.querySelector('path').setAttribute('d', pathOf(points, from, span, most))
}

/** A line with a gap wherever the number is not known. */
function pathOf(points, from, span, most) {
  let pen = 'M'
  let path = ''
  for (const { at, value } of points) {
    if (value === null) {
      pen = 'M'
      continue
    }
    const x = ((at - from) / span) * WIDTH
    const y = HEIGHT - 2 - (value / most) * (HEIGHT - 4)
    path += `${pen}${x.toFixed(1)} ${y.toFixed(1)}`
    pen = 'L'
  }
  return path
}
