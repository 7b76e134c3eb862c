/** What an operator does: buttons that say it to the server, and what came of it. */
import { byId, element, link, tell } from './rows.js'

/** Who may act; null for a viewer. */
let operator = null

export function setOperator(state) {
  operator = state.operator
  const login = state.hasOperatorLogin ? link('login', 'Log in to act') : undefined
  tell('operator', operator === null ? login : `Acts as ${operator}`)
}

export const mayAct = () => operator !== null

/** What is being done. */
const pending = new Set()

/** `acts` are `{ label, action, … }`, or what is false for none. A viewer has no buttons. */
export const buttons = (acts) =>
  mayAct() && element('div', { class: 'acts' }, ...acts.filter(Boolean).map(button))

function button({ label, ...act }) {
  const on = act.jobId === undefined ? act.resource : `job ${act.jobId}`
  const text = JSON.stringify(act)
  const named = { type: 'button', 'aria-label': `${label} ${on}`, 'data-act': text }
  return element('button', { ...named, disabled: pending.has(text) && '' }, label)
}

const SURE = {
  release:
    'The holder is not asked and still runs. Until it notices, another may work on the resource at the same time. Release?',
  cancel: 'The job fails, also if it runs. Cancel it?',
  skip: 'The jobs behind it run without it. Skip it?',
}

/** Where an operator types what an action sets. */
const FIELDS = { slots: ['slots'], rate: ['limit', 'perMs'] }

/** Acts when a button is pressed, and calls `afterwards`. */
export function listen(afterwards) {
  document.addEventListener('click', ({ target }) => {
    const pressed = target.closest('[data-act]')
    if (pressed !== null) void act(pressed, afterwards)
  })
  byId('outcome-close').addEventListener('click', () => {
    byId('outcome').hidden = true
    byId('main').focus()
  })
}

async function act(pressed, afterwards) {
  const text = pressed.dataset.act
  const wanted = JSON.parse(text)
  if (SURE[wanted.action] !== undefined && !confirm(SURE[wanted.action])) return
  const reason = byId('reason').value.trim()
  const typed = Object.fromEntries(
    // 0 would reset it, and nothing was typed for that. The server refuses null.
    (FIELDS[wanted.action] ?? []).map((name) => [name, Number(byId(name).value) || null]),
  )
  pending.add(text)
  pressed.disabled = true
  try {
    const answer = await fetch('act', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ ...typed, ...wanted, reason }),
    })
    if (answer.ok) {
      const { ok, outcome } = await answer.json()
      show(ok ? 'good' : 'bad', outcome)
    } else show('bad', (await answer.text()).trim())
  } catch {
    show('bad', 'No connection to the dashboard: it is not known whether this was done.')
  }
  pending.delete(text)
  pressed.disabled = false
  await afterwards().catch(() => undefined) // It is tried again with the next state.
}

/** It stays until the user closes it. */
function show(state, text) {
  byId('outcome').hidden = false
  tell('outcome-text', text, state)
}
