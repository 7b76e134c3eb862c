import { expect, it } from 'vitest'
import { messageOf, withoutAddresses, withoutStop } from '../src/message-of.ts'

it.each([
  [new Error('connect ECONNREFUSED'), 'connect ECONNREFUSED'],
  [new TypeError(''), 'TypeError'],
  ['words', 'words'],
  [
    new AggregateError([
      new Error('::1 is away'),
      new Error('127.0.0.1 is away'),
      new Error('::1 is away'),
    ]),
    '::1 is away, 127.0.0.1 is away',
  ],
  [new AggregateError([]), 'AggregateError'],
  [
    new Error(
      '80EC:error:0A00045C:SSL routines:ssl3_read_bytes:tlsv13 alert certificate required:../rec_layer_s3.c:1601:SSL alert number 116\n',
    ),
    'TLS: tlsv13 alert certificate required',
  ],
  [
    new Error("Socket timeout. Expecting data, but didn't receive any in 1000ms."),
    'no data from the server for 1000 ms',
  ],
])('%s', (error, said) => {
  expect(messageOf(error)).toBe(said)
})

it('a sentence has one full stop', () => {
  expect(['Refused.', 'refused', 'refused…', 'Why?'].map(withoutStop)).toEqual([
    ...['Refused', 'refused', 'refused…', 'Why?'],
  ])
})

it.each([
  ['does not answer: connect ECONNREFUSED 10.0.0.1:6379', 'does not answer: connect ECONNREFUSED'],
  ['connect ECONNREFUSED ::1:1, connect ECONNREFUSED 127.0.0.1:1', 'connect ECONNREFUSED'],
  ['it is away (getaddrinfo ENOTFOUND lock-1)', 'it is away (getaddrinfo ENOTFOUND)'],
  ['connect ENOENT /run/redis.sock', 'connect ENOENT'],
  ['read ECONNRESET', 'read ECONNRESET'],
])('without addresses: %s', (text, common) => {
  expect(withoutAddresses(text)).toBe(common)
})
