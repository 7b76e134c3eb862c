/**
 * Joins OpenTelemetry to the channel. Every entry that makes locks or workers imports this module:
 * the core does not know who listens.
 */
import { openTelemetry } from './open-telemetry.ts'

openTelemetry()
