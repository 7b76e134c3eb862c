/** Text for people and logs without the user names and passwords of URLs in it. */
export function redacted(text: string): string {
  return text.replace(/(\w+:\/\/)[^\s,'"]*@/g, '$1***@')
}
