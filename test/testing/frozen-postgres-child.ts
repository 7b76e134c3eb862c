/** A program that starts a PostgreSQL, lets it and its children stand still, and waits. */
import { startPostgres } from '../../scripts/lock-servers/postgres-server.ts'

const server = await startPostgres()
server.process.freeze()
process.stdout.write('frozen\n')
setInterval(() => undefined, 60_000)
