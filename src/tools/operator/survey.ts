/** The facts about every master, and about the queue's Redis, from which a diagnosis is made. */
import type { Probe, ServerSurvey } from './probe.ts'
import type { QueueServer } from './queue-server.ts'
import { valuesOf, type ServerAnswer, type FleetProbe } from './fleet-probe.ts'
import { isErrorReply, type Refusal } from '../../redlock/wire/master.ts'
import { refusalBy, trialCall } from '../../redlock/wire/enrolment.ts'

/** What a master knows of its place in the fleet. */
export interface EnrolmentSurvey {
  /** Of the server process that was enrolled. */
  readonly runId: string
  readonly maxLeaseMs: number
  /** How many masters its clients list; 0 where none has said so. */
  readonly fleetSize: number
  /** How long it still grants nothing; 0 when it may grant. */
  readonly quarantineMs: number
  /** How long counters live; 0 where it is not stored. */
  readonly fenceTtlMs: number
  /** The goal of the resize that has closed it, and of the last one that opened it; '' for none. */
  readonly resizing: string
  readonly resized: string
  /** A resize took it out of its fleet. */
  readonly isRetired: boolean
}

export interface MasterSurvey extends ServerSurvey {
  /** Undefined when no client has enrolled this master under the namespace. */
  readonly enrolment: EnrolmentSurvey | undefined
  /** What it says instead of doing what a lease needs. */
  readonly refusal: Refusal | undefined
}

export interface FleetSurvey {
  readonly namespace: string
  readonly masters: readonly ServerAnswer<MasterSurvey>[]
  /** Every node of the queue's Redis; none where no queue was named. */
  readonly queue: readonly ServerAnswer<ServerSurvey>[]
}

export async function surveyFleet(fleet: FleetProbe, queue?: QueueServer): Promise<FleetSurvey> {
  const [masters, answers = []] = await Promise.all([
    fleet.each((probe) => surveyMaster(probe, fleet)),
    queue?.surveys(),
  ])
  return { namespace: fleet.namespace, masters, queue: answers }
}

const TEXTS = ['runId', 'resizing', 'resized', 'retired'] as const
const NUMBERS = ['maxLeaseMs', 'votesInMs', 'fleetSize', 'fenceTtlMs'] as const

async function surveyMaster(probe: Probe, fleet: FleetProbe): Promise<MasterSurvey> {
  const server = await probe.survey()
  const reply = await probe.command('HMGET', fleet.keys.master, ...TEXTS, ...NUMBERS)
  const [runId, resizing, resized, retired, ...numbers] = reply as readonly (string | null)[]
  const [maxLeaseMs = 0, quarantineMs = 0, fleetSize = 0, fenceTtlMs = 0] = numbers.map(Number)
  const known = { maxLeaseMs, quarantineMs, fleetSize, fenceTtlMs, isRetired: retired === '1' }
  return {
    ...server,
    enrolment: runId
      ? { runId, resizing: resizing ?? '', resized: resized ?? '', ...known }
      : undefined,
    // A server that says so here says so to a worker, unless their users differ.
    refusal: await fleet.call(probe, trialCall).then(
      () => undefined,
      (error: unknown) => {
        if (isErrorReply(error)) return refusalBy(error.message)
        throw error
      },
    ),
  }
}

/** As the masters say now. */
export async function storedMaxLeaseMs(fleet: FleetProbe): Promise<number | undefined> {
  return maxLeaseOf((await surveyFleet(fleet)).masters)
}

/** The fleet's `maxLeaseMs`, as most of its masters have it stored; undefined where none has. */
export function maxLeaseOf(masters: readonly ServerAnswer<MasterSurvey>[]): number | undefined {
  const counts = new Map<number, number>()
  for (const { enrolment } of valuesOf(masters)) {
    if (enrolment === undefined || enrolment.maxLeaseMs === 0) continue
    counts.set(enrolment.maxLeaseMs, (counts.get(enrolment.maxLeaseMs) ?? 0) + 1)
  }
  return [...counts].sort((a, b) => b[1] - a[1])[0]?.[0]
}
