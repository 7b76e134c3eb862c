/**
 * The processes of a run log their leases, one file each; the history checker judges all of them
 * together.
 */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { destination, pino } from 'pino'
import type { Logger } from '../../src/index.ts'
import { verifyHistoryFiles, type HistoryVerdict } from '../../src/testing/index.ts'

/** Written at once, so that a process that is killed leaves its lines behind. */
export function leaseLogger(directory: string): Logger {
  const dest = join(directory, `${process.pid}-${Date.now()}.ndjson`)
  return pino({ level: 'debug', base: null }, destination({ dest, sync: true }))
}

/** What is wrong, in words: what the checker found, or that there was nothing to judge. */
export function leaseAnomalies({ verdict, findings }: HistoryVerdict): readonly string[] {
  if (verdict === 'empty') return ['no process has logged a lease']
  return findings.map(({ kind, text }) => `${kind}: ${text}`)
}

export class LeaseLogs {
  readonly directory: string = mkdtempSync(join(tmpdir(), 'lease-logs-'))

  verdict(): Promise<HistoryVerdict> {
    return verifyHistoryFiles(readdirSync(this.directory).map((name) => join(this.directory, name)))
  }

  remove(): void {
    rmSync(this.directory, { recursive: true, force: true })
  }
}
