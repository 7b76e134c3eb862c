/** The jobs of these tests. */
export interface Charge {
  readonly customer: string
  readonly nr: number
}

/** Two in each of four shards. */
export const CUSTOMERS = ['ann', 'bob', 'cid', 'dee', 'eve', 'fay', 'ida', 'jim'] as const
export const resourceOf = ({ customer }: Charge): string => `customer:${customer}`
