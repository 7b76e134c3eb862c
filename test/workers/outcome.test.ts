import { describe, expect, it } from 'vitest'
import { problems, type Outcome } from '../../workers/demo/outcome.ts'
import { humanReport, jsonReport } from '../../workers/demo/report.ts'
import { verifyHistory } from '../../src/testing/index.ts'
import type { Finding } from '../../workers/ledger-audit.ts'

const RIGHT: Outcome = {
  ...{ seed: 7, without: undefined, jobsIn: 10, jobsDone: 10, jobsFailed: 0 },
  leases: { ...(await verifyHistory([])), verdict: 'clean' },
  ...{ leasesLost: 1, requeues: 3, elapsedMs: 4_200 },
  audit: {
    ...{ jobsPosted: 10, duplicateEffects: [], outOfTurnEffects: [], wrongBalances: [] },
    staleWritesRefused: [],
  },
  faults: [{ name: 'worker killed', atMs: 1_000, seen: ['job 1 ran again'] }],
}

const FINDING: Finding = {
  customer: 'KLM',
  jobId: 's-1',
  what: 'posted 2 times',
  entries: [
    {
      ...{ seq: 4, jobId: 's-1', customer: 'KLM', amount: 5, balanceBefore: 1, balanceAfter: 6 },
      ...{ seal: '', fencingToken: 9, worker: 'worker-2' },
    },
  ],
}

const OVERLAP = { kind: 'overlap', text: 'two holders' } as const

function withAudit(audit: Partial<Outcome['audit']>): Outcome {
  return { ...RIGHT, audit: { ...RIGHT.audit, ...audit } }
}

describe('the verdict on a run', () => {
  it('is empty for a correct run', () => {
    expect(problems(RIGHT)).toEqual([])
    expect(humanReport(RIGHT)).toContain('The ledger is right, and every fault happened.')
    expect(JSON.parse(jsonReport(RIGHT))).toMatchObject({
      right: true,
      interruptedJobRanAgain: true,
    })
  })

  it.each([
    ['a job that is not done', { ...RIGHT, jobsDone: 9 }, '1 of 10 jobs are not done'],
    ['a job that failed', { ...RIGHT, jobsFailed: 1 }, '1 job failed for good'],
    ['a job without effect', withAudit({ jobsPosted: 9 }), 'entries of 9 jobs, expected 10'],
    ['a duplicate', withAudit({ duplicateEffects: [FINDING] }), '1 duplicate effects'],
    ['an overlap', withAudit({ outOfTurnEffects: [FINDING] }), '1 out-of-turn effects'],
    ['a wrong balance', withAudit({ wrongBalances: [FINDING] }), '1 wrong balances'],
    [
      'two holders of a lease',
      { ...RIGHT, leases: { ...RIGHT.leases, verdict: 'violated', findings: [OVERLAP] } },
      'the history of the leases is violated:\n    overlap: two holders',
    ],
    [
      'a fault that did not happen',
      { ...RIGHT, faults: [{ name: 'worker frozen', atMs: 1, seen: [], missing: 'no refusal' }] },
      'fault "worker frozen" did not happen as planned: no refusal',
    ],
  ] satisfies [string, Outcome, string][])('reports %s', (_name, outcome, expected) => {
    expect(problems(outcome).join('\n')).toContain(expected)
    expect(JSON.parse(jsonReport(outcome))).toMatchObject({ right: false })
  })

  it('gives the customer, the job and the entries as evidence', () => {
    expect(problems(withAudit({ duplicateEffects: [FINDING] }))).toEqual([
      '1 duplicate effects, among them:\n' +
        '    KLM, s-1 posted 2 times\n' +
        '      entry 4 by worker-2: s-1, 1 + 5 = 6, token 9',
    ])
  })

  it('says which safeguard was left out', () => {
    const outcome = { ...withAudit({ wrongBalances: [FINDING] }), without: 'lease' as const }
    expect(humanReport(outcome)).toContain('Without a lease, this went wrong:')
  })
})
