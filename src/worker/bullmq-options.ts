/** Of the options of a queue or a worker those that are BullMQ's: `known` has them as false. */
export function bullmqOptions(
  options: object,
  known: Readonly<Record<string, boolean>>,
): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(options).filter(([name]) => known[name] === false))
}
