import { runEpisode } from '../test/combination/episode.ts'
import { drawPlan } from '../test/combination/draw.ts'
import { World } from '../test/combination/world.ts'
console.log('open')
const world = await World.open()
console.log('opened', performance.now())
const h = await runEpisode(world, drawPlan(Number(process.argv[2])))
console.log('ran', performance.now(), h.unsettled)
await world[Symbol.asyncDispose]()
console.log('closed')
