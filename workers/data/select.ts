/**
 * Makes strikes.ndjson from the FAA bird strike table of the npm package vega-datasets 3.2.1:
 *
 *   npm pack vega-datasets@3.2.1 && tar xzf vega-datasets-3.2.1.tgz package/data/birdstrikes.csv
 *   npx tsx workers/data/select.ts package/data/birdstrikes.csv
 */
import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const SOURCE_SHA1 = 'e4af3575d2458885025e4c8a40a9fa3e6851933a'
const FIRST_DAY = '1996-01-01'
const MIN_STRIKES = 5
/** Values of the operator column that stand for many owners, so they are nobody's account. */
const NOT_ONE_OPERATOR = ['BUSINESS', 'GOVERNMENT', 'MILITARY', 'PRIVATELY OWNED', 'UNKNOWN']

const source = readFileSync(process.argv[2] ?? 'package/data/birdstrikes.csv')
const sha1 = createHash('sha1').update(source).digest('hex')
if (sha1 !== SOURCE_SHA1) throw new Error(`Expected the file with SHA-1 ${SOURCE_SHA1}, got ${sha1}`)

const [header = [], ...rows] = source
  .toString('utf8')
  .trimEnd()
  .split('\n')
  .map((line) => line.split(','))
const strikes = rows.map((row, index) => {
  // The table quotes nothing, so a field with a comma in it would show as a column too many.
  if (row.length !== header.length) throw new Error(`Line ${index + 2} has ${row.length} fields`)
  const field = (name: string): string => row[header.indexOf(name)] ?? ''
  return {
    id: `strike-${String(index + 2).padStart(5, '0')}`,
    customer: field('Aircraft Airline Operator'),
    date: field('Flight Date'),
    amount: Number(field('Cost Total $')),
    airport: field('Airport Name'),
    aircraft: field('Aircraft Make Model'),
    phase: field('Phase of flight'),
    damage: field('Effect Amount of damage'),
    species: field('Wildlife Species'),
  }
})

const damaging = strikes.filter(
  ({ amount, customer, damage, date }) =>
    date >= FIRST_DAY && (damage !== 'None' || amount > 0) && !NOT_ONE_OPERATOR.includes(customer),
)
const count = (customer: string): number =>
  damaging.filter((strike) => strike.customer === customer).length
const selected = damaging
  .filter(({ customer }) => count(customer) >= MIN_STRIKES)
  .sort((a, b) => (a.date === b.date ? a.id.localeCompare(b.id) : a.date < b.date ? -1 : 1))

writeFileSync(
  join(import.meta.dirname, 'strikes.ndjson'),
  selected.map((strike) => `${JSON.stringify(strike)}\n`).join(''),
)
