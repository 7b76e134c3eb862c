/** Numbers and times as people read them, and what reasons mean. */

export const whole = (number) => Math.round(number).toLocaleString('en')

export const count = (number, one) => `${whole(number)} ${number === 1 ? one : `${one}s`}`

/** The value in words; undefined where it is not known. */
export const known = (value, words) => (value === undefined ? undefined : words(value))

/** What rounds to 60 min is an hour. */
export function duration(ms) {
  if (ms < 0) return 'no expiry'
  if (ms < 1_000) return `${Math.round(ms)} ms`
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`
  if (ms < 3_570_000) return `${Math.round(ms / 60_000)} min`
  return ms < 172_800_000 ? `${Math.round(ms / 3_600_000)} h` : `${Math.round(ms / 86_400_000)} d`
}

export const clockTime = (ms) => new Date(ms).toLocaleTimeString('en-GB')

export function perSecond(rate) {
  if (rate === 0) return '0 /s'
  return rate < 10 ? `${rate < 0.1 ? '< 0.1' : rate.toFixed(1)} /s` : `${Math.round(rate)} /s`
}

const until = (end) => (end === undefined ? '' : ` until ${clockTime(Date.parse(end))}`)
const because = (reason) => (reason === undefined ? '' : ` (${reason})`)

/** What is set for a resource; undefined where nothing is. */
export function limitsInWords({ paused, asleepUntil, slots, rate }) {
  const words = [
    paused && `paused${until(paused.until)}${because(paused.reason)}`,
    asleepUntil && `asleep${until(asleepUntil)}`,
    slots && `${count(slots.slots, 'slot')}${until(slots.until)}${because(slots.reason)}`,
    rate && `${rate.limit} in ${duration(rate.perMs)}${until(rate.until)}${because(rate.reason)}`,
  ].filter(Boolean)
  return words.length === 0 ? undefined : words.join('; ')
}
