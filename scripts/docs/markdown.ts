import prettier from 'prettier'

/** A generated page, as the formatter writes pages. */
export async function markdown(text: string, page: string): Promise<string> {
  return prettier.format(text, { ...(await prettier.resolveConfig(page)), parser: 'markdown' })
}

/** Of a heading, as GitHub makes it. */
export function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-')
}
