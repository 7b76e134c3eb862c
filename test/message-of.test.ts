import { expect, it } from 'vitest'
import { messageOf, withoutStop } from '../src/message-of.ts'

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
])('%s', (error, said) => {
  expect(messageOf(error)).toBe(said)
})

it('a sentence has one full stop', () => {
  expect(['Refused.', 'refused', 'refused…', 'Why?'].map(withoutStop)).toEqual([
    ...['Refused', 'refused', 'refused…', 'Why?'],
  ])
})
