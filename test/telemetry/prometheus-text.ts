/** Prometheus' text format, as much of it as an exporter writes. */
export interface Series {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

export function series(text: string): readonly Series[] {
  return text
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => {
      const match = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line)
      if (match === null) throw new Error(`not a line of Prometheus' text format: ${line}`)
      const [, name = '', labels = '', value = ''] = match
      const pairs = [...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)]
      return {
        name,
        labels: Object.fromEntries(pairs.map(([, label = '', text = '']) => [label, text])),
        value: Number(value),
      }
    })
}
