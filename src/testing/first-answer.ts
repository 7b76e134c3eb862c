/**
 * Waits for a server's first answer, over a bare socket: a client would retry and log on its own.
 */

import { connect } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'

const BETWEEN_TRIES_MS = 15
const ANSWER_LIMIT_MS = 1_000

export interface Expected {
  readonly host: string
  readonly port: number
  readonly password: string | undefined
  /** The process that has to answer; another server may have taken the port before ours. */
  readonly pid?: number
}

/** Tries until the server answers PING (`true`), or until the signal aborts (`false`). */
export async function firstAnswer(expected: Expected, signal: AbortSignal): Promise<boolean> {
  while (!signal.aborted) {
    if (isReady(await ask(expected), expected.pid)) return true
    await delay(BETWEEN_TRIES_MS)
  }
  return false
}

function isReady(answer: string, pid: number | undefined): boolean {
  if (!answer.includes('+PONG')) return false
  return pid === undefined || answer.includes(`\nprocess_id:${pid}\r`)
}

/**
 * Everything the server says to PING and INFO before it closes; empty when it cannot be reached.
 */
function ask({ host, port, password }: Expected): Promise<string> {
  return new Promise((resolve) => {
    let answer = ''
    const socket = connect({ host, port })
    const login = password === undefined ? '' : command('AUTH', password)
    socket.setEncoding('utf8')
    socket.setTimeout(ANSWER_LIMIT_MS, () => {
      socket.destroy()
    })
    socket.on('connect', () => {
      socket.write(login + command('PING') + command('INFO', 'server') + command('QUIT'))
    })
    socket.on('data', (text: string) => {
      answer += text
    })
    // A refused connection is the ordinary case while a server starts; 'close' follows.
    socket.on('error', () => {
      answer = ''
    })
    socket.on('close', () => {
      resolve(answer)
    })
  })
}

function command(...words: readonly string[]): string {
  const parts = words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`)
  return `*${words.length}\r\n${parts.join('')}`
}
