import prettier from 'prettier'

/** A generated page, as the formatter writes pages. */
export async function markdown(text: string, page: string): Promise<string> {
  return prettier.format(text, { ...(await prettier.resolveConfig(page)), parser: 'markdown' })
}
