import { expect, it } from 'vitest'
import { judge, judgeLines, type Event } from './judge.ts'
import { verdictOf } from './row.ts'
import { percentile } from '../statistics.ts'

type Start = Extract<Event, { readonly key: string }>

const entered = (nr: number, at: number, process = 0, key = 'a'): Start => ({
  report: 'entered',
  ...{ key, nr, at, process },
})
const left = (nr: number, at: number, process = 0, key = 'a'): Start => ({
  report: 'left',
  ...{ key, nr, at, process },
})

it('reports the pause between two jobs of a line, and no fault', () => {
  const events = [entered(0, 0), left(0, 10), entered(1, 13), left(1, 20), entered(2, 21)]
  expect(judgeLines(events)).toEqual({
    outOfOrder: 0,
    overlaps: 0,
    repeated: 0,
    longestStandstillMs: 3,
  })
})

it('a job whose process died starts again; the line was idle since the death', () => {
  const died: Event = { report: 'died', process: 0, at: 5 }
  const events = [
    entered(0, 0),
    died,
    entered(0, 2_005, 1),
    left(0, 2_010, 1),
    entered(1, 2_011, 1),
  ]
  expect(judgeLines(events)).toEqual({
    outOfOrder: 0,
    overlaps: 0,
    repeated: 1,
    longestStandstillMs: 2_000,
  })
})

it('a job that runs beside another one of its line is an overlap', () => {
  expect(judgeLines([entered(0, 0), entered(1, 5, 1), left(0, 10)]).overlaps).toBe(1)
  expect(judgeLines([entered(0, 0), entered(0, 5, 1, 'b'), left(0, 10)]).overlaps).toBe(0)
})

it('a job that starts before or after its turn is out of order', () => {
  const skipped = [entered(0, 0), left(0, 1), entered(2, 2), left(2, 3)]
  expect(judgeLines(skipped).outOfOrder).toBe(1)
  const late = [...skipped, entered(1, 4), left(1, 5)]
  expect(judgeLines(late).outOfOrder).toBe(2)
})

it('runs are compared within their line', () => {
  const run = (key: string, nr: number, startedAt: number, endedAt: number) => ({
    ...{ key, nr, startedAt, endedAt },
  })
  const runs = [run('a', 1, 0, 10), run('b', 0, 1, 5), run('a', 0, 8, 12), run('b', 1, 7, 20)]
  expect(judge(runs)).toEqual({ makespanMs: 20, inversions: 1, overlaps: 1 })
})

it('a percentile is the nearest rank', () => {
  const values = Array.from({ length: 20 }, (_, index) => index + 1)
  expect(percentile(values, 0.95)).toBe(19)
  expect(percentile(values, 0.5)).toBe(10)
  expect(percentile([], 0.5)).toBeNaN()
})

it('a figure is missed, met, or on its target', () => {
  const figure = { name: 'x', kind: 'speed', must: { atMost: 2 }, aim: { atMost: 1 } } as const
  expect(verdictOf({ ...figure, value: Infinity })).toBe('MISSED')
  expect(verdictOf({ ...figure, value: NaN })).toBe('MISSED')
  expect(verdictOf({ ...figure, value: 1.5 })).toBe('MET')
  expect(verdictOf({ ...figure, value: 1 })).toBe('MET, aim too')
  expect(verdictOf({ name: 'x', value: 1, kind: 'reference' })).toBe('')
})
