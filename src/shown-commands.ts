/** Commands in what people are told: they have the options of the one who reads them. */
import { quoted } from './command-line.ts'

/** Which servers a command asks, and so whose options it takes. */
const SERVERS: Readonly<Record<string, 'masters' | 'queue' | 'both' | 'none'>> = {
  ...{ doctor: 'both', leases: 'both', inspect: 'both', why: 'both', dashboard: 'both' },
  ...{ work: 'both', release: 'masters', bootstrap: 'masters', resize: 'masters' },
  ...{ pause: 'queue', resume: 'queue', limit: 'queue', limits: 'queue', cancel: 'queue' },
  ...{ retry: 'queue', skip: 'queue', 'leave-lines': 'queue', verify: 'none' },
}

/** An option that was given, such as `--prefix`; without `servers`, of every command with some. */
export interface GivenOption {
  readonly flag: string
  readonly value: string
  readonly servers?: 'masters' | 'queue'
}

const COMMAND = new RegExp(`\\bbullmq-redlock (${Object.keys(SERVERS).join('|')})(?![\\w-])`, 'g')

/** Whether a command has an option of these servers. */
export function takes(command: string, servers?: 'masters' | 'queue'): boolean {
  const asked = SERVERS[command]
  return asked !== 'none' && (asked === 'both' || asked === servers || servers === undefined)
}

/** A text whose commands have the options of the one who reads it: they run as they are shown. */
export function withOptions(text: string, options: readonly GivenOption[] = []): string {
  return text.replace(COMMAND, (start: string, command: string, at: number) => {
    const [shown = ''] = text.slice(at).split('`', 1)
    return options
      .filter(({ flag, servers }) => takes(command, servers) && !shown.includes(` ${flag} `))
      .reduce((all, { flag, value }) => `${all} ${flag} ${quoted(value)}`, start)
  })
}

/** What a command needs to find a queue with this prefix. */
export function prefixOption(prefix: string): readonly GivenOption[] {
  return prefix === 'bull' ? [] : [{ flag: '--prefix', value: prefix, servers: 'queue' }]
}

/** A text whose commands find the queue. @param queue its prefix, and its name behind a colon. */
export function ofQueue(text: string, queue: string): string {
  const end = queue.lastIndexOf(':')
  return withOptions(text, end < 0 ? [] : prefixOption(queue.slice(0, end)))
}

/** The same of all texts of a value, as JSON. */
export function jsonWithOptions(value: object, options: readonly GivenOption[] = []): string {
  return JSON.stringify(value, (_, each: unknown) =>
    typeof each === 'string' ? withOptions(each, options) : each,
  )
}
