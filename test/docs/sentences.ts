/** Sentences of prose, and how many words they have. */

export interface Sentence {
  readonly line: number
  readonly words: number
  readonly text: string
}

export const MAX_WORDS = 25

/** Of a page; without code, tables, headings and comments. */
export function sentencesOf(page: string): readonly Sentence[] {
  const found: Sentence[] = []
  let paragraph: string[] = []
  let start = 1
  let inCode = false
  const end = (): void => {
    found.push(...split(paragraph.join(' ')).map((text) => ({ ...measured(text), line: start })))
    paragraph = []
  }
  for (const [index, line] of page.split('\n').entries()) {
    if (/^\s*```/.test(line)) {
      inCode = !inCode
      end()
      continue
    }
    if (inCode) continue
    const isProse = !/^\s*(\||#|<|!\[|$)/.test(line)
    if (!isProse || /^\s*([-*]|\d+\.)\s/.test(line)) end()
    if (!isProse) continue
    if (paragraph.length === 0) start = index + 1
    paragraph.push(line.replace(/^\s*([-*]|\d+\.)\s+/, '').trim())
  }
  end()
  return found
}

/** At a full stop or a colon, behind which a list or a sentence begins. Not one in `code`. */
export function split(paragraph: string): readonly string[] {
  const plain = paragraph
    .replaceAll(/`[^`]*`/g, 'code')
    .replaceAll(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replaceAll(/<[^>]*>/g, '')
    .replaceAll(/\bcode(,? (and |or )?code)+/g, 'code')
  return plain
    .split(/(?<=[.!?:][)*_"”]*)\s+| · /)
    .map((text) => text.trim())
    .filter((text) => text !== '')
}

function measured(text: string): Omit<Sentence, 'line'> {
  const words = text.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word)).length
  return { words, text }
}
