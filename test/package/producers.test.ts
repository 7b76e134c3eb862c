/**
 * Servers of Express, Fastify and Next.js that only add jobs, by the light entry of the tarball.
 * Each is a small project that is installed, started, and asked by HTTP.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { LockedQueue } from '../../src/index.ts'
import { takePort } from '../../src/testing/free-port.ts'
import { startServer, type TestServer } from '../../src/testing/index.ts'
import { packedApp, succeeded, type PackedApp } from '../stories/packed-app.ts'
import { until } from '../fixtures.ts'

const TOOLS = ['express@5', 'fastify@5', 'next@16', 'react@19', 'react-dom@19']
/** A machine that does other things too compiles a page slowly. */
const START_LIMIT_MS = 120_000

let app: PackedApp
let server: TestServer
beforeAll(async () => {
  app = packedApp()
  succeeded(app.run('npm', ['install', '--no-audit', '--no-fund', '--ignore-scripts', ...TOOLS]))
  server = await startServer()
}, 400_000)
afterAll(async () => {
  await server.close()
  app.remove()
})

const QUEUE = `
import { LockedQueue } from 'bullmq-redlock/queue'

export const queue = new LockedQueue('invoices', {
  connection: { url: process.env.BULLMQ_REDLOCK_QUEUE },
  resource: ({ customerId }) => \`customer:\${customerId}\`,
})
`

const PROJECTS = {
  express: {
    files: {
      'queue.js': QUEUE,
      'server.js': `
        import express from 'express'
        import { queue } from './queue.js'
        const app = express().use(express.json())
        app.post('/invoices', async (request, response) => {
          const { id } = await queue.add('invoice', request.body, { attempts: 3 })
          response.status(202).json({ id })
        })
        app.listen(process.env.PORT, '127.0.0.1')
      `,
    },
    start: ['server.js'],
    path: '/invoices',
  },
  fastify: {
    files: {
      'queue.js': QUEUE,
      'server.js': `
        import Fastify from 'fastify'
        import { queue } from './queue.js'
        const app = Fastify()
        app.post('/invoices', async (request, reply) => {
          const { id } = await queue.add('invoice', request.body, { attempts: 3 })
          return reply.code(202).send({ id })
        })
        app.addHook('onClose', () => queue.close())
        await app.listen({ port: Number(process.env.PORT), host: '127.0.0.1' })
      `,
    },
    start: ['server.js'],
    path: '/invoices',
  },
  // BullMQ finds its files by their paths: Next.js must not bundle it.
  'Next.js': {
    files: {
      'next.config.mjs': `export default { serverExternalPackages: ['bullmq', 'bullmq-redlock'] }`,
      'lib/queue.js': QUEUE,
      'app/layout.js': `
        export default function Layout({ children }) {
          return <html lang="en"><body>{children}</body></html>
        }
      `,
      'app/api/invoices/route.js': `
        import { queue } from '../../../lib/queue.js'
        export async function POST(request) {
          const { id } = await queue.add('invoice', await request.json(), { attempts: 3 })
          return Response.json({ id }, { status: 202 })
        }
      `,
    },
    start: ['node_modules/next/dist/bin/next', 'dev', '--hostname', '127.0.0.1'],
    path: '/api/invoices',
  },
} as const

/** The project in a folder of the application, or the application itself for Next.js. */
function start(name: keyof typeof PROJECTS, port: number): ChildProcess {
  const { files, start: args } = PROJECTS[name]
  const folder = name === 'Next.js' ? app.path() : app.path(name)
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, file)), { recursive: true })
    writeFileSync(join(folder, file), text)
  }
  const env = { ...process.env, BULLMQ_REDLOCK_QUEUE: server.url, PORT: String(port) }
  return spawn(process.execPath, args, { cwd: folder, env, stdio: 'ignore', detached: true })
}

it.each(['express', 'fastify', 'Next.js'] as const)(
  '%s adds jobs of a customer, in line',
  async (name) => {
    const port = await takePort('127.0.0.1')
    const child = start(name, port)
    try {
      const invoice = async (): Promise<Response | undefined> => {
        const headers = { 'content-type': 'application/json' }
        const body = JSON.stringify({ customerId: name })
        const url = `http://127.0.0.1:${port}${PROJECTS[name].path}`
        return fetch(url, { method: 'POST', headers, body }).catch(() => undefined)
      }
      await until('it answers', async () => (await invoice())?.status === 202, START_LIMIT_MS)
      const second = await invoice()
      expect(second?.status).toBe(202)
      const { id } = (await second?.json()) as { id: string }
      const queue = new LockedQueue('invoices', {
        connection: { url: server.url },
        resource: () => 'unused',
      })
      expect((await queue.position(id))?.ahead).toBe(1)
      await queue.close()
    } finally {
      const { pid } = child
      if (pid !== undefined) process.kill(-pid, 'SIGKILL') // With what Next.js has started.
      await once(child, 'close')
    }
  },
  2 * START_LIMIT_MS,
)
