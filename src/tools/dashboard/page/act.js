/** What an operator does: buttons that say it to the server, and what came of it. */
import { byId, element, setText } from './rows.js'

/** Who may act; null for a viewer. */
let operator = null

export function setOperator(state) {
  operator = state.operator
  const who = byId('operator')
  who.hidden = operator === null && !state.hasOperatorLogin
  if (operator !== null) setText(who, `Acts as ${operator}`)
  else if (who.firstElementChild === null) {
    who.replaceChildren(element('a', { href: 'login', textContent: 'Log in to act' }))
  }
  document.body.toggleAttribute('data-operator', operator !== null)
}

export const mayAct = () => operator !== null

/** Buttons in a cell; `acts` are `{ label, action, … }`, or what is false for none. */
export const buttons = (acts) => ({
  make: () => element('div', { className: 'acts' }),
  update: (div) => {
    const wanted = operator === null ? [] : acts.filter(Boolean)
    const text = JSON.stringify(wanted)
    if (div.dataset.wanted === text) return
    div.dataset.wanted = text
    div.replaceChildren(...wanted.map(button))
  },
})

function button({ label, ...act }) {
  const on = act.jobId === undefined ? act.resource : `job ${act.jobId}`
  const made = element('button', { type: 'button', textContent: label })
  made.dataset.act = JSON.stringify(act)
  made.setAttribute('aria-label', `${label} ${on}`)
  return made
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
  const wanted = JSON.parse(pressed.dataset.act)
  if (SURE[wanted.action] !== undefined && !confirm(SURE[wanted.action])) return
  const reason = byId('reason').value.trim()
  const typed = Object.fromEntries(
    // 0 would reset it, and nothing was typed for that. The server refuses null.
    (FIELDS[wanted.action] ?? []).map((name) => [name, Number(byId(name).value) || null]),
  )
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
    await afterwards()
  } catch {
    show('bad', 'No connection to the dashboard: it is not known whether this was done.')
  } finally {
    pressed.disabled = false
  }
}

/** It stays until the user closes it. */
function show(state, text) {
  byId('outcome').hidden = false
  byId('outcome-text').dataset.state = state
  setText(byId('outcome-text'), text)
}
