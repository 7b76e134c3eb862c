/**
 * The quorum protocol as a set of steps, for a small fleet and two attempts on one resource.
 *
 * Messages are delayed without bound, reordered and lost (a step that is never taken); a key may
 * vanish at any moment, which covers releases, expiry and clocks that jump. With `clock` time is
 * discrete instead: keys and trust live for `LEASE_TICKS`, and only then is exclusion judged, and
 * the order of tokens by when leases are complete.
 *
 * A quarantine ends when a client has counted it on its monotonic clock: in the model, after
 * `LEASE_TICKS` of the time that trust has too. A master may restart with a wrong clock: it has no
 * vote until that is set right, and what it stored meanwhile expires then.
 */
import type { Removable } from './rules.ts'
import {
  COMPLETED,
  COMPLETED_FIRST,
  CONFIRMING,
  COUNTER,
  DUPLICATES,
  EXTENDING,
  FLOOR,
  get,
  HEALED,
  HELD,
  HOLDER,
  IDLE,
  LOSSES,
  NEW_TRUST,
  OVER,
  OVERTAKEN,
  PHASE,
  POLLING,
  PROPOSAL,
  QUARANTINE,
  ROUNDS,
  set,
  TOKEN,
  TRAFFIC,
  TRUST,
  TTL,
  WRONG,
  type Field,
} from './protocol-state.ts'

export interface Scope {
  readonly masters: number
  /** Extension rounds, of both attempts together. */
  readonly extensions: number
  /** Masters that lose their memory, one after the other; proposals then follow a clock. */
  readonly losses: number
  /** Acquires that are delivered twice. */
  readonly duplicates: number
  /**
   * Proposals are any of 1 to this number; with losses, increasing with the start of the attempts.
   */
  readonly proposals: number
  readonly clock: boolean
  /** A master that loses its memory may come back with a wrong clock. */
  readonly wrongClocks: boolean
  /** Equal masters are one, and dead ends are left out. Not for a walk that follows each master. */
  readonly sorted: boolean
  readonly without: ReadonlySet<Removable>
}

export type Broken = 'UNIQ' | 'MONO' | 'CONT' | 'ME'

/** What a step did: which message ran or what else happened, for which attempt, on which master. */
export interface Step {
  readonly what:
    | 'start'
    | 'complete'
    | 'ask to confirm'
    | 'begin to extend'
    | 'extended'
    | 'acquire'
    | 'acquire again'
    | 'confirm'
    | 'extend'
    | 'heal'
    | 'vanish'
    | 'forget'
    | 'set right'
    | 'time passes'
  readonly attempt?: 0 | 1
  readonly master?: number
}

/** Called with the scratch row after each step. */
export type Visit = (label: () => string, broken: Broken | undefined, step: Step) => void

const LEASE_TICKS = 2
const MAX_COUNTER = 15
const ATTEMPTS = [0, 1] as const
type Attempt = (typeof ATTEMPTS)[number]

export class Protocol {
  readonly words: number
  readonly #scope: Scope
  readonly #quorum: number
  readonly #row: Uint32Array
  readonly #base: Uint32Array
  readonly #visit: Visit
  #broken: Broken | undefined

  /** `row` is where every step puts the state it leads to, masters sorted. */
  constructor(scope: Scope, row: Uint32Array, visit: Visit) {
    this.#scope = scope
    this.#quorum = Math.floor(scope.masters / 2) + 1
    this.words = scope.masters + 3
    this.#row = row
    this.#base = new Uint32Array(this.words)
    this.#visit = visit
  }

  writeInitial(): void {
    const { masters, losses, duplicates, extensions } = this.#scope
    this.#row.fill(0)
    const faults = set(set(0, LOSSES, losses), DUPLICATES, duplicates)
    this.#row[masters + 2] = set(faults, ROUNDS, extensions)
  }

  /** Visits every state that one step leads to from `from`. */
  successors(from: Uint32Array): void {
    this.#base.set(from)
    this.#row.set(from)
    for (const attempt of ATTEMPTS) {
      this.#start(attempt)
      this.#decide(attempt)
      this.#completeConfirmed(attempt)
      this.#beginExtension(attempt)
      this.#completeExtension(attempt)
      for (let master = 0; master < this.#scope.masters; master++) {
        // Equal masters lead to equal states.
        if (this.#isLikeTheOneBefore(master)) continue
        this.#deliver(attempt, master)
      }
    }
    for (let master = 0; master < this.#scope.masters; master++) {
      if (this.#isLikeTheOneBefore(master)) continue
      this.#vanish(master)
      this.#forget(master, false)
      if (this.#scope.wrongClocks) this.#forget(master, true)
      this.#setRight(master)
    }
    if (this.#scope.clock) this.#passTime()
  }

  #isLikeTheOneBefore(master: number): boolean {
    return this.#scope.sorted && master > 0 && this.#base[master] === this.#base[master - 1]
  }

  #start(attempt: Attempt): void {
    const { proposals, losses } = this.#scope
    if (this.#of(attempt, PHASE) !== IDLE) return
    const other = this.#other(attempt)
    const floor = this.#of(other, COMPLETED) === 1 ? this.#of(other, TOKEN) : 0
    const follows = losses > 0
    const earlier = Math.max(floor, this.#of(other, PROPOSAL))
    const first = follows ? earlier + 1 : 1
    for (let proposal = first; proposal < first + (follows ? 1 : proposals); proposal++) {
      this.#begin()
      this.#poll(attempt, proposal, floor)
      const label = (): string => `attempt ${attempt + 1} starts with proposal ${proposal}`
      this.#end(label, { what: 'start', attempt })
    }
  }

  #poll(attempt: Attempt, proposal: number, floor: number): void {
    this.#put(attempt, PHASE, POLLING)
    this.#put(attempt, PROPOSAL, proposal)
    this.#put(attempt, FLOOR, floor)
    if (this.#scope.clock) this.#put(attempt, TRUST, LEASE_TICKS)
    this.#everywhere((word) => set(word, TRAFFIC[attempt].acquire, 1))
  }

  /** On any quorum of the grants that have been made: replies arrive in any order. */
  #decide(attempt: Attempt): void {
    if (this.#of(attempt, PHASE) !== POLLING) return
    const { granted } = TRAFFIC[attempt]
    for (let token = 1; token <= MAX_COUNTER; token++) {
      const exact = this.#count((word) => get(word, granted) === token)
      if (exact === 0) continue
      const below = this.#count((word) => get(word, granted) > 0 && get(word, granted) < token)
      if (exact >= this.#quorum) this.#complete(attempt, token, 'at once')
      if (below === 0 || exact + below < this.#quorum) continue
      if (this.#scope.without.has('confirmRound')) this.#complete(attempt, token, 'unconfirmed')
      else this.#askToConfirm(attempt, token)
    }
  }

  #askToConfirm(attempt: Attempt, token: number): void {
    this.#begin()
    this.#put(attempt, PHASE, CONFIRMING)
    this.#put(attempt, TOKEN, token)
    this.#everywhere((word) =>
      set(set(word, TRAFFIC[attempt].granted, 0), TRAFFIC[attempt].confirm, 1),
    )
    const label = (): string => `attempt ${attempt + 1} asks to confirm ${token}`
    this.#end(label, { what: 'ask to confirm', attempt })
  }

  #completeConfirmed(attempt: Attempt): void {
    if (this.#of(attempt, PHASE) !== CONFIRMING) return
    if (this.#count((word) => get(word, TRAFFIC[attempt].confirm) === 2) < this.#quorum) return
    this.#complete(attempt, this.#of(attempt, TOKEN), 'confirmed')
  }

  #complete(attempt: Attempt, token: number, how: string): void {
    const other = this.#other(attempt)
    this.#begin()
    const { granted, confirm } = TRAFFIC[attempt]
    this.#everywhere((word) => {
      const cleared = set(word, granted, 0)
      return get(cleared, confirm) === 2 ? set(cleared, confirm, 0) : cleared
    })
    this.#put(attempt, PHASE, HELD)
    this.#put(attempt, TOKEN, token)
    this.#put(attempt, COMPLETED, 1)
    const otherCompleted = this.#of(other, COMPLETED) === 1
    this.#put(attempt, COMPLETED_FIRST, otherCompleted ? 0 : 1)
    if (otherCompleted && this.#of(other, TOKEN) === token) this.#broken = 'UNIQ'
    if (token <= this.#of(attempt, FLOOR)) this.#broken = 'MONO'
    // Where keys vanish at any moment, an attempt may outlive its keys by as much as it likes.
    if (this.#scope.clock && otherCompleted && token < this.#of(other, TOKEN)) this.#broken = 'MONO'
    if (this.#scope.clock) {
      if (this.#scope.without.has('trustFromStart')) this.#put(attempt, TRUST, LEASE_TICKS)
      this.#judgeExclusion()
    }
    const label = (): string => `attempt ${attempt + 1} is complete with token ${token}, ${how}`
    this.#end(label, { what: 'complete', attempt })
  }

  #beginExtension(attempt: Attempt): void {
    const rounds = this.#left(ROUNDS)
    if (this.#of(attempt, PHASE) !== HELD || rounds === 0) return
    const other = this.#other(attempt)
    const overtaken =
      this.#of(attempt, COMPLETED_FIRST) === 1 &&
      this.#of(other, COMPLETED) === 1 &&
      this.#of(other, TOKEN) > this.#of(attempt, TOKEN)
    this.#begin()
    this.#spend(ROUNDS)
    this.#put(attempt, EXTENDING, 1)
    this.#put(attempt, OVERTAKEN, overtaken ? 1 : 0)
    if (this.#scope.clock) this.#put(attempt, NEW_TRUST, LEASE_TICKS)
    this.#everywhere((word) => set(word, TRAFFIC[attempt].extend, 1))
    const label = (): string => `attempt ${attempt + 1} begins to extend`
    this.#end(label, { what: 'begin to extend', attempt })
  }

  #completeExtension(attempt: Attempt): void {
    const { extend, heal } = TRAFFIC[attempt]
    if (this.#of(attempt, EXTENDING) === 0) return
    if (this.#count((word) => get(word, extend) === 2) < this.#quorum) return
    const { clock, without } = this.#scope
    const held = this.#of(attempt, PHASE) === HELD
    if (!held && !(clock && without.has('extendInsideTrust'))) return
    this.#begin()
    this.#put(attempt, EXTENDING, 0)
    this.#put(attempt, PHASE, HELD)
    this.#everywhere((word) => {
      const answer = get(word, extend)
      const done = answer === 1 ? word : set(word, extend, 0)
      return answer === 3 ? set(done, heal, 1) : done
    })
    // Without a clock there is no quarantine, on which continuity rests where memory is lost.
    const quarantined = clock || this.#scope.losses === 0
    if (this.#of(attempt, OVERTAKEN) === 1 && quarantined) this.#broken = 'CONT'
    if (clock) {
      const trust = Math.max(this.#of(attempt, TRUST), this.#of(attempt, NEW_TRUST))
      this.#put(attempt, TRUST, trust)
      if (trust === 0) this.#put(attempt, PHASE, OVER)
      this.#judgeExclusion()
    }
    this.#end(() => `attempt ${attempt + 1} is extended`, { what: 'extended', attempt })
  }

  #deliver(attempt: Attempt, master: number): void {
    const word = this.#base[master] ?? 0
    const sent = TRAFFIC[attempt]
    if (get(word, sent.acquire) === 1) {
      this.#begin()
      this.#set(master, sent.acquire, 0)
      this.#runAcquire(attempt, master)
      const label = (): string => `acquire of ${attempt + 1} runs on ${describe(word)}`
      this.#end(label, { what: 'acquire', attempt, master })
    } else if (this.#left(DUPLICATES) > 0 && this.#of(attempt, PHASE) !== IDLE) {
      this.#begin()
      this.#spend(DUPLICATES)
      this.#runAcquire(attempt, master)
      const label = (): string => `acquire of ${attempt + 1} runs once more on ${describe(word)}`
      this.#end(label, { what: 'acquire again', attempt, master })
    }
    if (get(word, sent.confirm) === 1) {
      this.#begin()
      this.#runConfirm(attempt, master)
      const label = (): string => `confirm of ${attempt + 1} runs on ${describe(word)}`
      this.#end(label, { what: 'confirm', attempt, master })
    }
    if (get(word, sent.extend) === 1) {
      this.#begin()
      this.#runExtend(attempt, master)
      const label = (): string => `extend of ${attempt + 1} runs on ${describe(word)}`
      this.#end(label, { what: 'extend', attempt, master })
    }
    if (get(word, sent.heal) === 1) {
      this.#begin()
      this.#set(master, sent.heal, 0)
      this.#runHeal(attempt, master)
      const label = (): string => `heal of ${attempt + 1} runs on ${describe(word)}`
      this.#end(label, { what: 'heal', attempt, master })
    }
  }

  #runAcquire(attempt: Attempt, master: number): void {
    const { without } = this.#scope
    const [holder, counter] = [this.#at(master, HOLDER), this.#at(master, COUNTER)]
    if (this.#at(master, QUARANTINE) > 0) return
    const polling = this.#of(attempt, PHASE) === POLLING && this.#at(master, WRONG) === 0
    if (holder === attempt + 1) {
      if (polling) this.#set(master, TRAFFIC[attempt].granted, counter)
      return
    }
    if (holder !== 0 && !without.has('heldIsNotGranted')) return
    const raised = without.has('everyGrantRaises') ? counter : counter + 1
    const granted = Math.max(raised, this.#of(attempt, PROPOSAL))
    this.#hold(master, attempt)
    this.#setCounter(master, granted)
    if (polling) this.#set(master, TRAFFIC[attempt].granted, granted)
  }

  #runConfirm(attempt: Attempt, master: number): void {
    const { without } = this.#scope
    const { confirm } = TRAFFIC[attempt]
    this.#set(master, confirm, 0)
    if (this.#at(master, HOLDER) !== attempt + 1 && !without.has('confirmChecksKey')) return
    const token = this.#of(attempt, TOKEN)
    this.#setCounter(master, Math.max(this.#at(master, COUNTER), token))
    const exact = this.#at(master, COUNTER) === token || without.has('confirmIsExact')
    if (exact && this.#of(attempt, PHASE) === CONFIRMING) this.#set(master, confirm, 2)
  }

  #runExtend(attempt: Attempt, master: number): void {
    const { without } = this.#scope
    const { extend, heal } = TRAFFIC[attempt]
    const token = this.#of(attempt, TOKEN)
    const holder = this.#at(master, HOLDER)
    this.#set(master, extend, 0)
    if (this.#at(master, COUNTER) > token && !without.has('extendChecksCounter')) return
    if (holder === 0 && !without.has('extendNeverCreates')) {
      if (without.has('healWaitsForQuorum') || this.#of(attempt, EXTENDING) === 0) {
        this.#set(master, heal, 1)
      } else {
        this.#set(master, extend, 3)
      }
      return
    }
    if (holder !== 0 && holder !== attempt + 1 && !without.has('extendChecksKey')) return
    if (holder === attempt + 1 || holder === 0) this.#hold(master, attempt)
    this.#setCounter(master, Math.max(this.#at(master, COUNTER), token))
    const healedVotes = this.#at(master, HEALED) === 0 || without.has('healedWaitsForVote')
    const votes = healedVotes && this.#at(master, WRONG) === 0
    if (this.#of(attempt, EXTENDING) === 1 && votes) this.#set(master, extend, 2)
  }

  #runHeal(attempt: Attempt, master: number): void {
    const { without } = this.#scope
    const token = this.#of(attempt, TOKEN)
    const holder = this.#at(master, HOLDER)
    const foreign = holder !== 0 && holder !== attempt + 1
    if (foreign && !without.has('healNeverReplaces')) return
    if (this.#at(master, COUNTER) > token && !without.has('healChecksCounter')) return
    this.#hold(master, attempt)
    this.#setCounter(master, token)
    if (this.#at(master, QUARANTINE) > 0) this.#set(master, HEALED, 1)
  }

  /** A key goes whenever it likes; with a clock only when its time is over, see `#passTime`. */
  #vanish(master: number): void {
    const word = this.#base[master] ?? 0
    if (this.#scope.clock || get(word, HOLDER) === 0) return
    this.#begin()
    this.#set(master, HOLDER, 0)
    this.#end(() => `the key vanishes from ${describe(word)}`, { what: 'vanish', master })
  }

  #forget(master: number, wrong: boolean): void {
    const { clock, without } = this.#scope
    const word = this.#base[master] ?? 0
    if (this.#left(LOSSES) === 0 || get(word, COUNTER) === 0) return
    this.#begin()
    this.#spend(LOSSES)
    this.#set(master, HOLDER, 0)
    this.#set(master, COUNTER, 0)
    this.#set(master, TTL, 0)
    this.#set(master, HEALED, 0)
    if (clock && !without.has('quarantine')) this.#set(master, QUARANTINE, LEASE_TICKS)
    if (wrong) this.#set(master, WRONG, 1)
    const how = wrong ? ', and its clock is wrong' : ''
    this.#end(() => `memory is lost on ${describe(word)}${how}`, { what: 'forget', master })
  }

  /** What it stored by the wrong clock is over. */
  #setRight(master: number): void {
    const word = this.#base[master] ?? 0
    if (get(word, WRONG) === 0) return
    this.#begin()
    for (const what of [WRONG, HOLDER, TTL, HEALED]) this.#set(master, what, 0)
    if (this.#scope.without.has('quarantineIsMonotonic')) this.#set(master, QUARANTINE, 0)
    this.#end(() => `the clock is set right of ${describe(word)}`, { what: 'set right', master })
  }

  #passTime(): void {
    this.#begin()
    this.#everywhere((word) => {
      const ttl = get(word, TTL)
      const quarantine = get(word, QUARANTINE)
      let next = quarantine > 0 ? set(word, QUARANTINE, quarantine - 1) : word
      if (quarantine === 1) next = set(next, HEALED, 0)
      if (ttl > 0) next = set(next, TTL, ttl - 1)
      return ttl === 1 ? set(next, HOLDER, 0) : next
    })
    for (const attempt of ATTEMPTS) {
      const [trust, renewed] = [this.#of(attempt, TRUST), this.#of(attempt, NEW_TRUST)]
      if (renewed > 0) this.#put(attempt, NEW_TRUST, renewed - 1)
      if (trust === 0) continue
      this.#put(attempt, TRUST, trust - 1)
      if (trust === 1) this.#put(attempt, PHASE, OVER)
    }
    this.#end(() => 'time passes', { what: 'time passes' })
  }

  #judgeExclusion(): void {
    const trusted = (attempt: Attempt): boolean =>
      this.#of(attempt, PHASE) === HELD && this.#of(attempt, TRUST) > 0
    if (trusted(0) && trusted(1)) this.#broken = 'ME'
  }

  #hold(master: number, attempt: Attempt): void {
    this.#set(master, HOLDER, attempt + 1)
    if (this.#scope.clock) this.#set(master, TTL, LEASE_TICKS)
  }

  #setCounter(master: number, counter: number): void {
    if (counter > MAX_COUNTER) throw new Error('The scope needs larger counters than the model has')
    this.#set(master, COUNTER, counter)
  }

  #other(attempt: Attempt): Attempt {
    return attempt === 0 ? 1 : 0
  }

  #begin(): void {
    this.#row.set(this.#base)
    this.#broken = undefined
  }

  #end(label: () => string, step: Step): void {
    if (!this.#scope.sorted) this.#visit(label, this.#broken, step)
    else if (this.#broken !== undefined || this.#mayStillBreak()) {
      this.#dropDeadTraffic()
      this.#sortMasters()
      this.#visit(label, this.#broken, step)
    }
    // What is asked between two steps is asked of the state they start from.
    this.#row.set(this.#base)
  }

  /**
   * Every property speaks of two complete leases: without a chance of that there is nothing left to
   * see.
   */
  #mayStillBreak(): boolean {
    const { clock } = this.#scope
    let finished = 0
    for (const attempt of ATTEMPTS) {
      if (this.#of(attempt, COMPLETED) === 0) {
        if (!this.#mayComplete(attempt)) return false
      } else if (this.#of(attempt, EXTENDING) === 0) {
        const over = this.#of(attempt, PHASE) === OVER
        if (over && clock) return false
        if (over || this.#left(ROUNDS) === 0) finished++
      } else if (
        this.#of(attempt, PHASE) === OVER &&
        !this.#scope.without.has('extendInsideTrust')
      ) {
        return false
      }
    }
    const [first, second] = ATTEMPTS
    const both = this.#of(first, COMPLETED) === 1 && this.#of(second, COMPLETED) === 1
    return !(both && finished === ATTEMPTS.length)
  }

  #mayComplete(attempt: Attempt): boolean {
    const { acquire, granted, confirm } = TRAFFIC[attempt]
    const phase = this.#of(attempt, PHASE)
    if (phase === IDLE) return true
    if (phase === OVER) return false
    let possible = phase === POLLING ? this.#left(DUPLICATES) : 0
    for (let master = 0; master < this.#scope.masters; master++) {
      const word = this.#row[master] ?? 0
      if (phase === CONFIRMING) possible += get(word, confirm) > 0 ? 1 : 0
      else possible += get(word, granted) > 0 || get(word, acquire) === 1 ? 1 : 0
    }
    return possible >= this.#quorum
  }

  /**
   * Messages that cannot have an effect any more are taken out, so that states which differ in them
   * are one.
   */
  #dropDeadTraffic(): void {
    const { without, masters } = this.#scope
    const counterStays = this.#left(LOSSES) === 0
    for (const attempt of ATTEMPTS) {
      const { acquire, confirm, extend, heal } = TRAFFIC[attempt]
      const token = this.#of(attempt, TOKEN)
      const confirming = this.#of(attempt, PHASE) === CONFIRMING
      for (let master = 0; master < masters; master++) {
        let word = this.#row[master] ?? 0
        const mayHold =
          get(word, HOLDER) === attempt + 1 ||
          get(word, acquire) === 1 ||
          get(word, heal) === 1 ||
          this.#left(DUPLICATES) > 0
        const beyond = counterStays && get(word, COUNTER) > token
        if (get(word, confirm) === 1) {
          const raises = !beyond && (confirming || get(word, COUNTER) < token || !counterStays)
          const counts = confirming && without.has('confirmIsExact')
          const runs = mayHold || without.has('confirmChecksKey')
          if (!runs || (!raises && !counts)) word = set(word, confirm, 0)
        }
        if (beyond && !without.has('extendChecksCounter') && get(word, extend) % 2 === 1) {
          word = set(word, extend, 0)
        }
        if (beyond && !without.has('healChecksCounter')) word = set(word, heal, 0)
        this.#row[master] = word
      }
    }
  }

  #sortMasters(): void {
    const row = this.#row
    for (let index = 1; index < this.#scope.masters; index++) {
      const word = row[index] ?? 0
      let place = index
      while (place > 0 && (row[place - 1] ?? 0) > word) {
        row[place] = row[place - 1] ?? 0
        place--
      }
      row[place] = word
    }
  }

  #of(attempt: Attempt, what: Field): number {
    return get(this.#row[this.#scope.masters + attempt] ?? 0, what)
  }

  #put(attempt: Attempt, what: Field, value: number): void {
    const index = this.#scope.masters + attempt
    this.#row[index] = set(this.#row[index] ?? 0, what, value)
  }

  /** What is left of the extensions and faults of the scope. */
  #left(what: Field): number {
    return get(this.#row[this.#scope.masters + 2] ?? 0, what)
  }

  #spend(what: Field): void {
    const index = this.#scope.masters + 2
    this.#row[index] = set(this.#row[index] ?? 0, what, this.#left(what) - 1)
  }

  #at(master: number, what: Field): number {
    return get(this.#row[master] ?? 0, what)
  }

  #set(master: number, what: Field, value: number): void {
    this.#row[master] = set(this.#row[master] ?? 0, what, value)
  }

  #everywhere(change: (word: number) => number): void {
    for (let master = 0; master < this.#scope.masters; master++) {
      this.#row[master] = change(this.#row[master] ?? 0)
    }
  }

  #count(holds: (word: number) => boolean): number {
    let count = 0
    for (let master = 0; master < this.#scope.masters; master++) {
      if (holds(this.#base[master] ?? 0)) count++
    }
    return count
  }
}

function describe(word: number): string {
  const holder = get(word, HOLDER)
  const key = holder === 0 ? 'free' : `held by ${holder}`
  return `a master that is ${key} at counter ${get(word, COUNTER)}`
}
