/** Where a shell would take a name apart, or read something else in it, it is quoted. */
const PLAIN = /^[\w@%+=:,./-][\w@%+=:,./#-]*$/

/** A command of `bullmq-redlock` for people to copy, with names as they are. */
export function commandLine(words: TemplateStringsArray, ...names: readonly string[]): string {
  const quoted = names.map((name) =>
    PLAIN.test(name) ? name : `'${name.replaceAll("'", `'\\''`)}'`,
  )
  return `bullmq-redlock ${String.raw({ raw: words }, ...quoted)}`
}
