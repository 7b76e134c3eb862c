/**
 * What is shown is made anew after every snapshot, and the page is changed in place where it
 * differs, so that focus and selection stay where they are. Whatever is shown is put in as text,
 * never as HTML: it comes from databases that others write.
 */

export const byId = (id) => document.getElementById(id)

const SVG = ['svg', 'path']

/** An attribute that is `false` is not there. */
export function element(tag, attributes = {}, ...children) {
  const made = SVG.includes(tag)
    ? document.createElementNS('http://www.w3.org/2000/svg', tag)
    : document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false) made.setAttribute(name, value)
  }
  made.append(...children)
  return made
}

/** Makes these the children of an element. One that stays is not moved: it would lose the focus. */
export function fill(target, ...children) {
  const before = named([...target.childNodes])
  const wanted = named(
    children.map((child) => (child.nodeName ? child : document.createTextNode(child))),
  )
  for (const [name, child] of before) {
    if (wanted.has(name)) continue
    // Its focus moves to the heading above it, and not to the top of the page.
    if (child.contains(document.activeElement))
      target.closest('section')?.querySelector('h2').focus()
    child.remove()
  }
  let place = target.firstChild
  for (const [name, child] of wanted) {
    const kept = before.get(name)
    if (kept !== undefined) become(kept, child)
    if (kept !== undefined && kept === place) place = place.nextSibling
    else target.insertBefore(kept ?? child, place)
  }
}

/** By their keys, or else their kinds, each with its number among those of the same. */
function named(nodes) {
  const counts = new Map()
  return new Map(
    nodes.map((node) => {
      const name = node.dataset?.key ?? node.nodeName
      counts.set(name, (counts.get(name) ?? 0) + 1)
      return [`${name} ${counts.get(name)}`, node]
    }),
  )
}

function become(node, wanted) {
  if (node.nodeName === '#text') {
    if (node.data !== wanted.data) node.data = wanted.data
    return
  }
  for (const name of node.getAttributeNames()) {
    if (!wanted.hasAttribute(name)) node.removeAttribute(name)
  }
  for (const { name, value } of wanted.attributes) {
    if (node.getAttribute(name) !== value) node.setAttribute(name, value)
  }
  fill(node, ...wanted.childNodes)
}

/** What the element with this id says, in the colour of a state. It is hidden for undefined. */
export function tell(id, text, state) {
  const target = byId(id)
  target.hidden = text === undefined
  if (state !== undefined) target.dataset.state = state
  fill(target, text ?? '')
}

export const stateOf = (state, text = state) =>
  element('span', { class: 'state', 'data-state': state }, text)

export const link = (href, text) => element('a', { href }, text)

/** Undefined for no resource. */
export const resourceLink = (resource) =>
  resource === undefined ? undefined : link(`#resource=${encodeURIComponent(resource)}`, resource)

export const list = (texts) => element('ol', {}, ...texts.map((text) => element('li', {}, text)))

const NOTHING = '–'

/** On a phone these have a line of their own. */
const WIDE = [
  ...['Holder', 'Job', 'First jobs', 'Waits for', 'Why', 'Reason', 'Actions', 'Outcome', 'Value'],
]

/**
 * The table whose rows have this id: one for each item, and hidden where there are none. `cellsOf`
 * gives what stands in each cell, by its column; `false` for no such column. The first cell names
 * the row. The style sheet changes how tables are laid out, so their roles are said too.
 */
export function rows(id, items, cellsOf) {
  const table = document.querySelector(`[data-rows=${id}]`)
  table.hidden = items.length === 0
  table.setAttribute('role', 'table')
  const cells = items.map((item) =>
    Object.entries(cellsOf(item)).filter(([, content]) => content !== false),
  )
  const heads = (cells[0] ?? []).map(([column]) =>
    element('th', { role: 'columnheader', scope: 'col', 'data-column': column }, column),
  )
  const { caption } = table.dataset
  fill(
    table,
    ...(caption === undefined ? [] : [element('caption', {}, caption)]),
    element('thead', { role: 'rowgroup' }, element('tr', { role: 'row' }, ...heads)),
    element('tbody', { role: 'rowgroup', id }, ...cells.map(rowOf)),
  )
}

function rowOf([first, ...others]) {
  const name = cellOf('th', { role: 'rowheader', scope: 'row' }, first)
  const cells = others.map((cell) => cellOf('td', { role: 'cell' }, cell))
  return element('tr', { role: 'row', 'data-key': name.textContent }, name, ...cells)
}

function cellOf(tag, attributes, [column, content = NOTHING]) {
  const cell = element(tag, { ...attributes, 'data-column': column }, content)
  if (WIDE.includes(column)) cell.dataset.wide = ''
  // On a phone a cell without a value takes no room.
  if (['', NOTHING].includes(cell.textContent)) cell.dataset.empty = ''
  return cell
}

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
