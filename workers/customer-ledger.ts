/**
 * Serialize per customer: posts the cost of every bird strike into the ledger of the aircraft's operator. Jobs of
 * one operator run one at a time, on however many machines; jobs of different operators run together.
 */
import { Ledger } from './ledger.ts'
import { isRight } from './ledger-audit.ts'
import { postStrike, type PostingResult } from './post-strike.ts'
import { runExample } from './runner.ts'
import type { Strike } from './strike.ts'

const WORKER = `pid ${process.pid}`

await runExample<Strike, PostingResult, Ledger>({
  queue: 'customer-ledger',
  help: `
Posts strikes into their operators' ledgers, one at a time per operator.

  tsx workers/customer-ledger.ts --enqueue --until-drained --master URL …
`,
  connect: (databaseUrl) => Ledger.connect(databaseUrl),
  jobs: (strikes) => strikes.map((strike) => ({ name: 'post', data: strike, id: strike.id })),
  resource: ({ customer }) => `customer:${customer}`,
  process: (job, lease, ledger) => postStrike(job, lease, ledger, WORKER),
  describe: ({ data }, { posted, balance, fencingToken }) =>
    posted === 'now'
      ? `${data.customer} + ${data.amount} = ${balance} dollars (${data.id}, token ${fencingToken})`
      : `${data.customer}: ${data.id} had been posted before its worker died`,
  async conclude(ledger, say) {
    const audit = await ledger.audit()
    const { jobsPosted, duplicateEffects, outOfTurnEffects, wrongBalances, staleWritesRefused } =
      audit
    const counts = {
      jobsPosted,
      duplicateEffects: duplicateEffects.length,
      outOfTurnEffects: outOfTurnEffects.length,
      wrongBalances: wrongBalances.length,
      staleWritesRefused: staleWritesRefused.length,
    }
    say(
      'audit',
      `${jobsPosted} jobs posted, ${counts.duplicateEffects} twice, ${counts.outOfTurnEffects} out of ` +
        `turn, ${counts.wrongBalances} wrong balances, ${counts.staleWritesRefused} stale writes refused`,
      counts,
    )
    return isRight(audit)
  },
})
