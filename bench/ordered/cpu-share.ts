/** A share of a core for each of several processes, by control groups of Linux. */
import { accessSync, constants, existsSync, mkdirSync, rmdirSync, writeFileSync } from 'node:fs'

const ROOT = '/sys/fs/cgroup'
const IS_UNIFIED = existsSync(`${ROOT}/cgroup.controllers`)
const GROUPS = IS_UNIFIED ? ROOT : `${ROOT}/cpu`
/** Short, so that a process which has used its share soon goes on. */
const PERIOD_US = 20_000

/** Why no process can be limited here; undefined where it can. */
export function missingShares(): string | undefined {
  try {
    accessSync(GROUPS, constants.W_OK)
    return undefined
  } catch {
    return `a control group in ${GROUPS} gives each server its share of a core: Linux, as root`
  }
}

/** @returns what ends it after the process has ended. */
export function limitCpu(pid: number, share: number): () => void {
  const group = `${GROUPS}/bench-${pid}`
  const quotaUs = Math.round(share * PERIOD_US)
  if (IS_UNIFIED) writeFileSync(`${ROOT}/cgroup.subtree_control`, '+cpu')
  mkdirSync(group, { recursive: true })
  if (IS_UNIFIED) {
    writeFileSync(`${group}/cpu.max`, `${quotaUs} ${PERIOD_US}`)
  } else {
    writeFileSync(`${group}/cpu.cfs_period_us`, `${PERIOD_US}`)
    writeFileSync(`${group}/cpu.cfs_quota_us`, `${quotaUs}`)
  }
  writeFileSync(`${group}/cgroup.procs`, `${pid}`)
  return () => {
    rmdirSync(group)
  }
}
