/** One resource, or one job. The address says which, so that it can be shared. */
import { drawJob, jobPath } from './job.js'
import { drawResource, resourcePath } from './resource.js'
import { byId } from './rows.js'

const PANELS = [
  ['resource', resourcePath, drawResource],
  ['job', jobPath, drawJob],
]

/** The link that opened a panel, for the way back. */
let opener

/** What the address opens. */
export const drawPanels = () => Promise.all(PANELS.map(drawPanel))

async function drawPanel([id, pathOf, draw]) {
  const { hash } = location
  const address = new URLSearchParams(hash.slice(1))
  const path = pathOf(address)
  if (path !== undefined) {
    const answer = await fetch(path)
    if (location.hash !== hash) return
    await draw(answer, address)
  }
  byId(id).hidden = path === undefined
}

const opened = () => PANELS.map(([id]) => byId(id)).filter(({ hidden }) => !hidden)

/** Closes what is open. */
function close() {
  history.pushState(null, '', location.pathname + location.search)
  for (const panel of opened()) panel.hidden = true
  const back = opener?.isConnected ? opener : byId('leases-title')
  back.focus()
}

export function openable() {
  for (const [id] of PANELS) byId(`${id}-close`).addEventListener('click', close)
  document.addEventListener('keydown', ({ key }) => {
    if (key === 'Escape' && opened().length > 0) close()
  })
  document.addEventListener('click', ({ target }) => {
    const link = target.closest('a[href^="#"]')
    if (link !== null && link.closest('.panel') === null) opener = link
  })
  addEventListener('hashchange', async () => {
    await drawPanels()
    const [panel] = opened()
    panel?.querySelector('h2').focus()
  })
}
