/**
 * The network between one process and one master. Bytes of one socket arrive in order; those of an
 * old socket may arrive long after those of its successor. Messages are delayed, lost, delivered
 * twice, and held or dropped while the link is cut, each direction for itself.
 */
import type { FaultCounts } from './fault-counts.ts'
import type { SeededRandom } from './seeded-random.ts'
import type { VirtualTime } from './virtual-time.ts'

export interface NetworkProfile {
  readonly usualMs: number
  /** A delay of up to `spikeMs` instead of the usual one. */
  readonly spikeChance: number
  readonly spikeMs: number
  readonly lossChance: number
  readonly duplicateChance: number
  /** That a request which was under way when its client closed the socket arrives much later. */
  readonly postponeChance: number
  /** How much later, for postponed and duplicated requests. */
  readonly postponeMs: number
}

export const CALM: NetworkProfile = {
  usualMs: 1,
  spikeChance: 0,
  spikeMs: 0,
  lossChance: 0,
  duplicateChance: 0,
  postponeChance: 0,
  postponeMs: 0,
}

/** What one connect makes. Its client closes it; its server forgets it in a crash. */
export interface Socket {
  readonly generation: number
  closed: boolean
  /** When the last message of each direction arrives: none may overtake it. */
  readonly lastArrival: { request: number; reply: number }
}

export interface NetworkOptions {
  readonly time: VirtualTime
  readonly random: SeededRandom
  readonly faults: FaultCounts
  readonly profile: NetworkProfile
  /** Counted as delayed when a message takes longer. */
  readonly deadlineMs: number
}

export class SimulatedNetwork {
  readonly #options: NetworkOptions
  readonly #links: Link[] = []
  #profile: NetworkProfile

  constructor(options: NetworkOptions) {
    this.#options = options
    this.#profile = options.profile
  }

  get profile(): NetworkProfile {
    return this.#profile
  }

  link(): Link {
    const link = new Link(this, this.#options)
    this.#links.push(link)
    return link
  }

  /** No more faults; what is under way arrives. */
  calm(): void {
    this.#profile = CALM
    for (const link of this.#links) link.mend()
  }
}

export class Link {
  readonly #network: SimulatedNetwork
  readonly #options: NetworkOptions
  readonly #cut = { request: false, reply: false }
  #held: {
    readonly direction: 'request' | 'reply'
    readonly socket: Socket
    readonly arrive: () => void
  }[] = []
  #holds = 0.5
  #generations = 0
  #executed = 0

  constructor(network: SimulatedNetwork, options: NetworkOptions) {
    this.#network = network
    this.#options = options
  }

  socket(): Socket {
    return {
      generation: ++this.#generations,
      closed: false,
      lastArrival: { request: 0, reply: 0 },
    }
  }

  /** The master runs a request of `socket`. */
  executes(socket: Socket): void {
    if (socket.generation < this.#executed) this.#options.faults.add('late on an old connection')
    this.#executed = Math.max(this.#executed, socket.generation)
  }

  /** What is under way then is held until the link is mended with the chance `holds`, else lost. */
  cut(direction: 'request' | 'reply' | 'both', holds = 0.5): void {
    this.#holds = holds
    if (direction !== 'reply') this.#cut.request = true
    if (direction !== 'request') this.#cut.reply = true
  }

  mend(): void {
    this.#cut.request = false
    this.#cut.reply = false
    const { time, random } = this.#options
    for (const { direction, socket, arrive } of this.#held.splice(0)) {
      time.at(this.#inOrder(time.now + random.between(0, 2), direction, socket), arrive)
    }
  }

  carry(direction: 'request' | 'reply', socket: Socket, arrive: () => void): void {
    const { time, random, faults, deadlineMs } = this.#options
    const { profile } = this.#network
    if (profile.lossChance > 0 && random.chance(profile.lossChance)) {
      faults.add(direction === 'request' ? 'request lost' : 'reply lost')
      return
    }
    const delayMs = this.#delayMs()
    if (delayMs > deadlineMs) faults.add('delayed past the deadline')
    const at = this.#inOrder(time.now + delayMs, direction, socket)
    time.at(at, this.#arrival(direction, socket, arrive))
    if (direction === 'request' && random.chance(profile.duplicateChance)) {
      faults.add('duplicated')
      time.at(at + random.between(0, profile.postponeMs), arrive)
    }
  }

  #inOrder(earliest: number, direction: 'request' | 'reply', socket: Socket): number {
    const at = Math.max(earliest, socket.lastArrival[direction])
    socket.lastArrival[direction] = at
    return at
  }

  #arrival(direction: 'request' | 'reply', socket: Socket, arrive: () => void): () => void {
    const { time, random } = this.#options
    let postponed = false
    const arrival = (): void => {
      const { profile } = this.#network
      if (this.#cut[direction]) {
        if (random.chance(this.#holds)) this.#held.push({ direction, socket, arrive: arrival })
      } else if (direction === 'request' && socket.closed && !postponed) {
        postponed = true
        const late = random.chance(profile.postponeChance)
        time.in(late ? random.between(0, profile.postponeMs) : 0, arrival)
      } else {
        arrive()
      }
    }
    return arrival
  }

  #delayMs(): number {
    const { random } = this.#options
    const { usualMs, spikeChance, spikeMs } = this.#network.profile
    if (spikeChance > 0 && random.chance(spikeChance)) return random.between(0, spikeMs)
    return usualMs * random.between(0.2, 1.5)
  }
}
