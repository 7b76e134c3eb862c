/** Values in words for people. */

/** What rounds to 60 min is an hour. */
export function duration(ms: number): string {
  if (ms < 10) return `${ms.toFixed(1)} ms`
  if (ms < 1_000) return `${Math.round(ms)} ms`
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`
  if (ms < 3_570_000) return `${Math.round(ms / 60_000)} min`
  return ms < 172_800_000 ? `${Math.round(ms / 3_600_000)} h` : `${Math.round(ms / 86_400_000)} d`
}

/** Of a server without an answer: one that refuses the question is not silent. */
export function whyUnanswered(problem = ''): string {
  return /^[A-Z]+ /.test(problem) ? 'refuses what is asked' : 'does not answer'
}

/** A key without a time to live never goes away. */
export function timeLeft(ms: number): string {
  return ms < 0 ? 'no expiry' : duration(ms)
}

/** Names come out of databases that others write: nothing in them may steer the terminal. */
// eslint-disable-next-line no-control-regex -- control characters are what this is about
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g

export function printable(text: string): string {
  return text.replace(CONTROL, (character) => {
    const code = character.charCodeAt(0)
    const hex = code.toString(16)
    return code > 0xff ? `\\u${hex}` : `\\x${hex.padStart(2, '0')}`
  })
}
