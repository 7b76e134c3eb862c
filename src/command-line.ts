/** Where a shell would take a name apart, or read something else in it, it is quoted. */
const PLAIN = /^[\w@%+=:,./-][\w@%+=:,./#-]*$/

export function quoted(name: string): string {
  return PLAIN.test(name) ? name : `'${name.replaceAll("'", `'\\''`)}'`
}

/**
 * A command of `bullmq-redlock` for people to copy, in backquotes, so that no line breaks in it:
 * names as they are, after its options.
 */
export function commandLine(words: TemplateStringsArray, ...names: readonly string[]): string {
  const shown = names.map(quoted)
  if (names.some((name) => name.startsWith('-'))) shown.unshift(`-- ${shown.shift() ?? ''}`)
  return `\`bullmq-redlock ${String.raw({ raw: words }, ...shown)}\``
}
