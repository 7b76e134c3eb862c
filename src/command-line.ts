/** Where a shell would take a name apart, or read something else in it, it is quoted. */
const PLAIN = /^[\w@%+=:,./-][\w@%+=:,./#-]*$/

/** A command of `bullmq-redlock` for people to copy: names as they are, after its options. */
export function commandLine(words: TemplateStringsArray, ...names: readonly string[]): string {
  const quoted = names.map((name) =>
    PLAIN.test(name) ? name : `'${name.replaceAll("'", `'\\''`)}'`,
  )
  if (names.some((name) => name.startsWith('-'))) quoted.unshift(`-- ${quoted.shift() ?? ''}`)
  return `bullmq-redlock ${String.raw({ raw: words }, ...quoted)}`
}
