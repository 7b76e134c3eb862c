/**
 * Audits the ledger at DATABASE_URL when every strike of the file is posted.
 * Exit codes: 0 the ledger is right, 1 it is wrong or away, or strikes are missing, 2 no
 * ledger is given.
 *
 *   npx tsx workers/audit.ts
 */
import { setTimeout as delay } from 'node:timers/promises'
import { Ledger } from './ledger.ts'
import { isRight } from './ledger-audit.ts'
import { required, runProgram } from './run-program.ts'
import { readStrikes, REAL_STRIKES } from './strikes-file.ts'

const LIMIT_MS = 180_000
const POLL_MS = 500

await runProgram(async () => {
  const url = required('DATABASE_URL', 'the URL of the PostgreSQL that has the ledger')
  const expected = (await readStrikes(REAL_STRIKES)).length
  const ledger = await Ledger.connect(url)
  const until = performance.now() + LIMIT_MS
  let audit = await ledger.audit()
  while (audit.jobsPosted < expected && performance.now() < until) {
    await delay(POLL_MS)
    audit = await ledger.audit()
  }
  await ledger.close()
  const { jobsPosted, duplicateEffects, outOfTurnEffects, wrongBalances, staleWritesRefused } =
    audit
  console.log(
    `${jobsPosted} of ${expected} jobs posted, ${duplicateEffects.length} twice, ` +
      `${outOfTurnEffects.length} out of turn, ${wrongBalances.length} wrong balances, ` +
      `${staleWritesRefused.length} stale writes refused`,
  )
  return isRight(audit) && jobsPosted === expected ? 0 : 1
})
