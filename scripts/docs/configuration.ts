/**
 * Writes docs/configuration.md from the option types: names, types, defaults and descriptions are
 * those of the doc comments. `npm run docs:configuration` writes the file; a test compares.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import ts from 'typescript'
import { markdown } from './markdown.ts'

const ROOT = resolve(import.meta.dirname, '../..')
export const PAGE = join(ROOT, 'docs/configuration.md')

interface Section {
  readonly title: string
  readonly intro: string
  readonly file: string
  /** With the file of one that stands elsewhere. */
  readonly types: readonly string[]
}

const SECTIONS: readonly Section[] = [
  {
    title: 'new Redlock(options)',
    intro: 'The fleet of masters and the leases that it grants.',
    file: 'redlock/settings.ts',
    types: ['RedlockOptions', 'lock/lock-settings.ts:CommonOptions'],
  },
  {
    title: 'tryAcquire(resource, options)',
    intro: 'Also of `acquire` and `using`, and, without `slots`, of `handOver`.',
    file: 'lock/lease-options.ts',
    types: ['LeaseOptions'],
  },
  {
    title: 'acquire(resource, options)',
    intro: 'Those of `tryAcquire`, and how long to wait. Also of `using`.',
    file: 'lock/lease-options.ts',
    types: ['AcquireOptions'],
  },
  {
    title: 'new LockedWorker(name, processor, options)',
    intro:
      "BullMQ's `WorkerOptions`, and these. `lockDuration`, `stalledInterval` and `maxStalledCount` follow from `leaseMs` unless they are given; " +
      '`maxStartedAttempts` and `skipLockRenewal` are refused.',
    file: 'worker/locked-worker-options.ts',
    types: ['LockedWorkerOptions'],
  },
  {
    title: 'lockedProcessor(redlock, options, processor)',
    intro:
      'The first six are also options of `LockedWorker`, which has events in place of the last two.',
    file: 'worker/locked-processor.ts',
    types: ['LockedProcessorOptions'],
  },
  {
    title: 'dedupe',
    intro: 'An option of `LockedWorker`.',
    file: 'worker/run/results.ts',
    types: ['Dedupe'],
  },
  {
    title: 'batchProcessor(options, run)',
    intro: 'A processor of `LockedWorker` that is given several jobs of one resource at once.',
    file: 'worker/run/batch.ts',
    types: ['BatchOptions'],
  },
  {
    title: 'worker.drain(options)',
    intro: 'Ends a worker within a time.',
    file: 'worker/locked-worker.ts',
    types: ['DrainOptions'],
  },
  {
    title: 'new LockedQueue(name, options)',
    intro: "BullMQ's `QueueOptions`, and these.",
    file: 'worker/locked-queue-options.ts',
    types: ['LockedQueueOptions'],
  },
  {
    title: 'new ShardedQueue(name, options)',
    intro: 'Those of `LockedQueue`, and this ([sharding.md](sharding.md)).',
    file: 'sharded/sharded-queue.ts',
    types: ['ShardedQueueOptions'],
  },
  {
    title: 'new ShardedWorker(name, processor, options)',
    intro: 'Those of `LockedWorker` without `limiter`, and these.',
    file: 'sharded/sharded-worker.ts',
    types: ['ShardedWorkerOptions'],
  },
  {
    title: 'new ShardedQueueEvents(name, options)',
    intro: "BullMQ's `QueueEventsOptions` without `lastEventId`, and this.",
    file: 'sharded/sharded-queue-events.ts',
    types: ['ShardedQueueEventsOptions'],
  },
  {
    title: 'openTelemetry(options)',
    intro: 'How locks and workers report to OpenTelemetry ([telemetry.md](telemetry.md)).',
    file: 'telemetry/open-telemetry.ts',
    types: ['TelemetryOptions'],
  },
]

interface Option {
  readonly name: string
  readonly type: string
  readonly isRequired: boolean
  readonly about: string
  readonly byDefault: string
}

/** The properties that a type itself declares, in order, without those that are internal. */
export function optionsOf(file: string, type: string): readonly Option[] {
  const path = join(ROOT, 'src', file)
  const source = ts.createSourceFile(path, readFileSync(path, 'utf8'), ts.ScriptTarget.Latest, true)
  const found = source.statements.filter(
    (statement): statement is ts.InterfaceDeclaration =>
      ts.isInterfaceDeclaration(statement) && statement.name.text === type,
  )
  const [declaration] = found
  if (declaration === undefined) throw new Error(`There is no interface ${type} in src/${file}`)
  return declaration.members.flatMap((member) => {
    if (!ts.isPropertySignature(member)) return []
    const tags = ts.getJSDocTags(member)
    if (tags.some(({ tagName }) => tagName.text === 'internal')) return []
    const byDefault = tags.find(({ tagName }) => tagName.text === 'defaultValue')
    const comments = ts.getJSDocCommentsAndTags(member).filter(ts.isJSDoc)
    return [
      {
        name: member.name.getText(),
        type: member.type?.getText().replace(/\s+/g, ' ') ?? 'unknown',
        isRequired: member.questionToken === undefined,
        about: comments.map(({ comment }) => textOf(comment)).join(' '),
        byDefault: textOf(byDefault?.comment),
      },
    ]
  })
}

function textOf(comment: string | ts.NodeArray<ts.JSDocComment> | undefined): string {
  return (ts.getTextOfJSDocComment(comment) ?? '').replace(/\s+/g, ' ').trim()
}

const cell = (text: string): string => text.replaceAll('|', '\\|')

export function page(): Promise<string> {
  const parts = SECTIONS.map(({ title, intro, file, types }) => {
    const options = types.flatMap((type) => {
      const [elsewhere = '', name = type] = type.split(':')
      return optionsOf(name === type ? file : elsewhere, name)
    })
    // One that is declared anew comes first.
    const rows = [...new Map(options.toReversed().map((each) => [each.name, each])).values()]
      .toReversed()
      .map((option) => {
        const byDefault =
          option.byDefault === '' ? (option.isRequired ? '_required_' : 'none') : option.byDefault
        return `| \`${option.name}\` | \`${cell(option.type)}\` | ${cell(byDefault)} | ${cell(option.about)} |`
      })
    return `## \`${title}\`\n\n${intro}\n\n| Option | Type | Default | What it does |\n| --- | --- | --- | --- |\n${rows.join('\n')}\n`
  })
  const head =
    '# Configuration\n\nEvery option, from the doc comments of its type (`npm run docs:configuration`; a test compares). Durations are milliseconds. A value that ' +
    'cannot be right is refused with a `TypeError` that names the option, what it expects and what it got. The command line has its own options: [cli.md](cli.md).\n'
  return markdown([head, ...parts].join('\n'), PAGE)
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) writeFileSync(PAGE, await page())
