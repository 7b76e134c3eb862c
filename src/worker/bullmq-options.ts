/** Of the options of a queue or a worker those that are BullMQ's: `known` has them as false. */
export function bullmqOptions(
  options: object,
  known: Readonly<Record<string, boolean>>,
): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    // An undefined one would take the place of a default.
    Object.entries(options).filter(([name, value]) => known[name] === false && value !== undefined),
  )
}
