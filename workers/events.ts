/** What a worker says about its jobs: a line for people, or a JSON object for programs. */

export type Say = (event: string, line: string, facts?: object) => void

/** Lines go to standard output; with `json` the facts go there, one object a line. */
export function saying(json: boolean): Say {
  return (event, line, facts = {}) => {
    const text = json ? JSON.stringify({ event, ...facts }) : `${event.padEnd(10)} ${line}`
    process.stdout.write(`${text}\n`)
  }
}
