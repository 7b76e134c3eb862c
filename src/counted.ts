/** A count with what it counts: `1 master votes`, `5 masters vote`. */
export function counted(count: number, one: string, many: string = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`
}
