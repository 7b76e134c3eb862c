/**
 * The main figures as bars in an SVG of its own: no fonts, scripts or styles from elsewhere, and a
 * background of its own, so that it can be read on a light page and on a dark one.
 */
import { number } from './format.ts'
import type { Panel } from './row.ts'

const WIDTH = 860
const MARGIN = 24
const LABELS = 190
const VALUES = 90
const BAR = 18
const GAP = 6
const TITLE = 40
const BETWEEN = 22

const INK = '#1f2328'
const QUIET = '#59636e'
const OURS = '#0b6bcb'
const PEER = '#8c959f'
const BOUND = '#d1d9e0'

export function plot(panels: readonly Panel[]): string {
  const parts: string[] = []
  let y = MARGIN
  for (const panel of panels) {
    parts.push(...drawPanel(panel, y))
    y += heightOf(panel) + BETWEEN
  }
  const height = y - BETWEEN + MARGIN
  const words = panels.map(({ title }) => title).join('; ')
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" font-family="system-ui, sans-serif" font-size="13">`,
    `<title>${escaped(words)}</title>`,
    `<rect width="${WIDTH}" height="${height}" rx="8" fill="#f6f8fa" stroke="#d1d9e0"/>`,
    ...parts,
    '</svg>\n',
  ].join('\n')
}

function heightOf({ bars }: Panel): number {
  return TITLE + bars.length * (BAR + GAP)
}

function drawPanel({ title, better, bars }: Panel, top: number): readonly string[] {
  const most = Math.max(...bars.map(({ at }) => at.high).filter(Number.isFinite))
  const room = WIDTH - 2 * MARGIN - LABELS - VALUES
  const scale = (value: number): number => (Number.isFinite(value) ? (value / most) * room : 0)
  const left = MARGIN + LABELS
  const head = [
    text(MARGIN, top + 14, title, `font-weight="600" fill="${INK}"`),
    text(WIDTH - MARGIN, top + 14, `${better} is better`, `text-anchor="end" fill="${QUIET}"`),
  ]
  const lines = bars.flatMap(({ label, kind, at }, index) => {
    const y = top + TITLE - GAP + index * (BAR + GAP)
    const middle = y + BAR / 2
    const fill = { ours: OURS, peer: PEER, bound: BOUND }[kind]
    const weight = kind === 'ours' ? 'font-weight="600" ' : ''
    return [
      text(left - 8, middle + 4, label, `${weight}text-anchor="end" fill="${INK}"`),
      `<rect x="${left}" y="${y}" width="${round(scale(at.median))}" height="${BAR}" fill="${fill}"/>`,
      whisker(left + scale(at.low), left + scale(at.high), middle),
      text(left + scale(at.high) + 8, middle + 4, number(at.median), `${weight}fill="${INK}"`),
    ]
  })
  return [...head, ...lines]
}

/** From the lowest to the highest round. */
function whisker(from: number, to: number, y: number): string {
  const ends = `M${round(from)} ${y - 4}v8M${round(to)} ${y - 4}v8`
  return `<path d="M${round(from)} ${y}H${round(to)}${ends}" stroke="${INK}" fill="none"/>`
}

function text(x: number, y: number, content: string, attributes: string): string {
  return `<text x="${round(x)}" y="${y}" ${attributes}>${escaped(content)}</text>`
}

function round(value: number): number {
  return Math.round(value * 10) / 10
}

function escaped(content: string): string {
  return content.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
