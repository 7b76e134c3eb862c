/** One line of the input: something that costs a customer money. */
export interface Strike {
  /**
   * Unique in the file and free of ':'; it becomes the job's id, so enqueueing twice adds nothing.
   */
  readonly id: string
  /** Whose ledger the amount is posted into; the resource a worker leases. */
  readonly customer: string
  /** `YYYY-MM-DD`. */
  readonly date: string
  /** Whole US dollars, 0 or more. */
  readonly amount: number
  readonly airport: string
  readonly aircraft: string
  readonly phase: string
  readonly damage: string
  readonly species: string
}

type Problem = `Expected ${string}`

/**
 * A strike, or what is wrong with the value. Descriptive fields that are absent become 'unknown'.
 */
export function parseStrike(value: unknown): Strike | Problem {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return `Expected an object, got ${shown(value)}`
  }
  const fields = value as Record<string, unknown>
  const { id, customer, date, amount } = fields
  if (typeof id !== 'string' || id === '' || id.includes(':')) {
    return `Expected "id" to be a text without ':', got ${shown(id)}`
  }
  if (typeof customer !== 'string' || customer.trim() === '') {
    return `Expected "customer" to be a text, got ${shown(customer)}`
  }
  if (typeof date !== 'string' || !/^\d{4}-\d{2}-\d{2}$/.test(date)) {
    return `Expected "date" as YYYY-MM-DD, got ${shown(date)}`
  }
  if (typeof amount !== 'number' || !Number.isSafeInteger(amount) || amount < 0) {
    return `Expected "amount" to be whole dollars, 0 or more, got ${shown(amount)}`
  }
  const text = (name: string): string => {
    const field = fields[name]
    return typeof field === 'string' && field !== '' ? field : 'unknown'
  }
  return {
    id,
    customer,
    date,
    amount,
    airport: text('airport'),
    aircraft: text('aircraft'),
    phase: text('phase'),
    damage: text('damage'),
    species: text('species'),
  }
}

function shown(value: unknown): string {
  return value === undefined ? 'nothing' : JSON.stringify(value).slice(0, 60)
}
