/** What each does not do. Nothing is measured. */
import type { Row } from '../harness.ts'

export const lacks: Row = {
  name: 'lacks',
  load: 'What each does not do, by its own documentation.',
  run({ contenders }) {
    return Promise.resolve({
      tables: [
        {
          title: 'Without',
          head: ['', 'jobs wait in', 'does not do'],
          rows: contenders.map(({ title, server, lacks: what }) => [
            title,
            server === 'its own' ? 'a server of its own' : server,
            what,
          ]),
        },
      ],
      ...{ figures: [], wrong: [] },
    })
  },
}
