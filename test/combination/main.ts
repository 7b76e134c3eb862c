import { runEpisode } from './episode.ts'
import { drawPlan } from './draw.ts'
import { judge } from './oracle.ts'
import { World } from './world.ts'
const [from = '1', to = '20', lanes = '6'] = process.argv.slice(2)
await using world = await World.open()
let next = Number(from)
const started = performance.now()
let ran = 0
const lane = async () => {
  while (next <= Number(to)) {
    const seed = next++
    const plan = drawPlan(seed)
    const at = performance.now()
    const history = await runEpisode(world, plan)
    ran++
    const violations = judge(history)
    const took = performance.now() - at
    if (violations.length > 0 || took > 3000) console.log(`seed ${seed} ${took.toFixed(0)} ms settle ${(history.settledAt-history.settlingAt).toFixed(0)} [${plan.features.join(', ')}] lag ${history.lagMs.toFixed(0)}`)
    for (const v of violations.slice(0, 4)) console.log(`    ${v.rule}: ${v.detail.slice(0, 300)}`)
  }
}
await Promise.all(Array.from({ length: Number(lanes) }, lane))
console.log(`${ran} episodes in ${((performance.now() - started) / 1000).toFixed(1)} s, cpu ${JSON.stringify(process.cpuUsage())}`)
