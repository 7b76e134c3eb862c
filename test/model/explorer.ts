/**
 * Visits every state that the protocol can reach in a scope, breadth first, so that a violation has
 * a shortest trace.
 */
import { Protocol, type Broken, type Scope } from './protocol.ts'
import { StateStore } from './state-store.ts'

export interface Exploration {
  readonly states: number
  /** Every reachable state was visited. */
  readonly complete: boolean
  readonly broken: Broken | undefined
  /** What led to the violation, step by step. */
  readonly trace: readonly string[]
  readonly elapsedMs: number
}

export interface Limits {
  readonly maxStates: number
  readonly progress?: ((states: number, waiting: number) => void) | undefined
}

const PROGRESS_EVERY = 1 << 16

export function explore(scope: Scope, { maxStates, progress }: Limits): Exploration {
  const startedAt = performance.now()
  const row = new Uint32Array(scope.masters + 3)
  const from = new Uint32Array(row.length)
  let current = 0
  let broken: Broken | undefined
  let lastStep = ''
  const protocol = new Protocol(scope, row, (label, found) => {
    if (broken !== undefined) return
    if (found !== undefined) {
      broken = found
      lastStep = label()
    } else if (store.size < maxStates) {
      store.add(row, current)
    }
  })
  const store = new StateStore(protocol.words)
  protocol.writeInitial()
  store.add(row, 0)
  for (; current < store.size && broken === undefined; current++) {
    store.read(current, from)
    protocol.successors(from)
    if (current % PROGRESS_EVERY === 0) progress?.(store.size, store.size - current)
  }
  const elapsedMs = performance.now() - startedAt
  return {
    states: store.size,
    complete: broken === undefined && store.size < maxStates,
    broken,
    trace: broken === undefined ? [] : [...traceTo(store, scope, current - 1), lastStep],
    elapsedMs,
  }
}

/** Walks back through the parents and asks again which step led from one to the next. */
function traceTo(store: StateStore, scope: Scope, index: number): string[] {
  const path = [index]
  for (let at = index; at !== 0;) {
    at = store.parentOf(at)
    path.unshift(at)
  }
  const row = new Uint32Array(store.words)
  const [from, to] = [new Uint32Array(store.words), new Uint32Array(store.words)]
  const steps: string[] = []
  const protocol = new Protocol(scope, row, (label) => {
    if (row.every((word, at) => word === to[at])) steps.push(label())
  })
  return path.slice(1).map((at, position) => {
    steps.length = 0
    store.read(path[position] ?? 0, from)
    store.read(at, to)
    protocol.successors(from)
    return steps[0] ?? '?'
  })
}
