/** The jobs of these tests. */
import { shardOf } from '../../src/sharded/placement.ts'

export interface Charge {
  readonly customer: string
  readonly nr: number
}

/** Two in each of four shards. */
export const CUSTOMERS = ['ann', 'bob', 'cid', 'dee', 'eve', 'fay', 'ida', 'jim'] as const
export const resourceOf = ({ customer }: Pick<Charge, 'customer'>): string => `customer:${customer}`
/** Of four. */
export const shardOfCustomer = (customer: string): number => shardOf([resourceOf({ customer })], 4)
/** So many of each customer. */
export const charges = (each: number, first = 0): { name: string; data: Charge }[] =>
  Array.from({ length: each }, (_, nr) =>
    CUSTOMERS.map((customer) => ({ name: 'charge', data: { customer, nr: first + nr } })),
  ).flat()
