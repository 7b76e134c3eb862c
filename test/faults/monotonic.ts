/** The system's monotonic clock in milliseconds: the same in every process of this machine. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6
}
