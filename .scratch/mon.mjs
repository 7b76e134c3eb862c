import { readdirSync, readFileSync } from 'node:fs'
const root = Number(process.argv[2])
const parents = () => { const m = new Map(); for (const p of readdirSync('/proc')) if (/^\d+$/.test(p)) { try { const s = readFileSync(`/proc/${p}/stat`,'utf8'); m.set(Number(p), Number(s.slice(s.lastIndexOf(')')+2).split(' ')[1])) } catch {} } return m }
const mine = (pid, m) => { for (let p = pid; p > 1; p = m.get(p) ?? 0) if (p === root) return true; return false }
for (;;) {
  const m = parents(); if (!m.has(root)) break
  const out = []
  for (const pid of m.keys()) { try {
    const cmd = readFileSync(`/proc/${pid}/cmdline`,'utf8').split('\0')
    if (!cmd[0].endsWith('etcd') || !mine(pid, m)) continue
    const url = cmd[cmd.indexOf('--listen-client-urls')+1]
    const t = performance.now()
    const go = async (path, body) => { const t = performance.now(); try { const r = await fetch(url+path,{method:'POST',body:JSON.stringify(body),signal:AbortSignal.timeout(3000)}); const x = await r.json(); return [Math.round(performance.now()-t), x] } catch (e) { return [Math.round(performance.now()-t), e.message] } }
    const [put, status] = await Promise.all([go('/v3/kv/put',{key:'enp6',value:'enp6'}), go('/v3/maintenance/status',{})])
    out.push(`${cmd[2]} put ${put[0]}${put[1].header?'':' '+JSON.stringify(put[1])} term ${status[1].raftTerm} rev ${put[1].header?.revision} lead ${status[1].leader?.slice(0,4)} idx ${status[1].raftIndex}`)
  } catch {} }
  console.log(new Date().toISOString().slice(14,23), readFileSync('/proc/loadavg','utf8').slice(0,5), out.join(' | '))
  await new Promise(r => setTimeout(r, 1000))
}
