/**
 * Tables that are changed in place, so that focus and selection stay where they are. Whatever is
 * shown is put in as text, never as HTML: it comes from databases that others write.
 */

export const byId = (id) => document.getElementById(id)

export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag)
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith('data-') || name === 'role' || name === 'scope')
      made.setAttribute(name, value)
    else made[name] = value
  }
  made.append(...children)
  return made
}

export function setText(target, text) {
  if (target.textContent !== text) target.textContent = text
}

/**
 * What can stand in a cell beside a text, or nothing: each is made once and changed afterwards.
 */
const plain = (text) => ({
  make: () => element('span'),
  update: (span) => setText(span, text),
})

export const stateOf = (state, text = state) => ({
  make: () => element('span', { className: 'state' }),
  update: (span) => {
    span.dataset.state = state
    setText(span, text)
  },
})

export const link = (href, text) => ({
  make: () => element('a'),
  update: (anchor) => {
    // A cell that showed plain text before has no anchor; its address is new as soon as there is
    // one.
    if (anchor.getAttribute('href') !== href) anchor.setAttribute('href', href)
    setText(anchor, text)
  },
})

export const resourceLink = (resource) =>
  link(`#resource=${encodeURIComponent(resource)}`, resource)

export const list = (texts) => ({
  make: () => element('ol'),
  update: (ol) => {
    while (ol.children.length > texts.length) ol.lastChild.remove()
    while (ol.children.length < texts.length) ol.append(element('li'))
    for (const [index, text] of texts.entries()) setText(ol.children[index], text)
  },
})

/** The table whose rows have this id. */
export const tableOf = (id) => document.querySelector(`[data-rows=${id}]`)

/** The style sheet changes how tables are laid out, so their roles are said too. */
function bodyOf(table, columns) {
  const heads = columns.map((textContent) =>
    element('th', { role: 'columnheader', scope: 'col', 'data-column': textContent, textContent }),
  )
  const body = element('tbody', { role: 'rowgroup', id: table.dataset.rows })
  const head = element('thead', { role: 'rowgroup' }, element('tr', { role: 'row' }, ...heads))
  table.setAttribute('role', 'table')
  const { caption } = table.dataset
  if (caption !== undefined) table.createCaption().textContent = caption
  table.append(head, body)
  return body
}

/**
 * Makes the rows with this id agree with `items`, and hides their table where there are none;
 * `cellsOf` gives what stands in each cell, by its column. A row that stays is not moved: that
 * would take the focus from it.
 */
export function syncRows(id, items, keyOf, cellsOf) {
  const table = tableOf(id)
  table.hidden = items.length === 0
  const [first] = items
  const body = byId(id) ?? (first && bodyOf(table, Object.keys(cellsOf(first))))
  if (body === undefined) return
  const wanted = new Set(items.map(keyOf))
  const rows = new Map([...body.children].map((row) => [row.dataset.key, row]))
  for (const [key, row] of rows) {
    if (wanted.has(key)) continue
    // The focus of a row that goes moves to the heading above it, and not to the top of the page.
    if (row.contains(document.activeElement)) body.closest('section').querySelector('h2').focus()
    row.remove()
  }
  let place = body.firstElementChild
  for (const item of items) {
    const key = keyOf(item)
    const row = rows.get(key) ?? element('tr', { role: 'row', 'data-key': key })
    syncCells(row, Object.entries(cellsOf(item)))
    if (place === row) place = row.nextElementSibling
    else body.insertBefore(row, place)
  }
}

function syncCells(row, cells) {
  for (const [index, [column, given]] of cells.entries()) {
    const content = given?.make === undefined ? plain(given ?? NOTHING) : given
    let cell = row.children[index]
    if (cell === undefined) {
      cell =
        index === 0
          ? element('th', { role: 'rowheader', scope: 'row' })
          : element('td', { role: 'cell' })
      cell.dataset.column = column
      if (WIDE.includes(column)) cell.dataset.wide = ''
      cell.append(content.make())
      row.append(cell)
    }
    const wanted = content.make()
    // A cell may turn from text into a link.
    if (wanted.tagName !== cell.firstElementChild.tagName) cell.replaceChildren(wanted)
    content.update(cell.firstElementChild)
    // On a phone a cell without a value takes no room.
    cell.toggleAttribute('data-empty', ['', NOTHING].includes(cell.textContent))
  }
}

const NOTHING = '–'

/** On a phone these have a line of their own. */
const WIDE = [
  ...['Holder', 'Job', 'First jobs', 'Waits for', 'Why', 'Reason', 'Actions', 'Outcome', 'Value'],
]

/** What the live region said last, by topic. */
const said = new Map()

/** Tells a screen reader what is new about the topic. The first time it is not news. */
export function say(topic, text) {
  const before = said.get(topic)
  said.set(topic, text)
  if (before !== undefined && before !== text) byId('news').textContent = text
}

/** What is said next about the topic is news. */
export function expectNews(topic) {
  said.set(topic, '')
}
