import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { watchLeaks, type LeakWatch } from '../support/leaks.ts'
import { type FaultProxy, startProxy } from '../support/proxy.ts'
import { Client, Echo, SOON } from './proxy-ends.ts'

let leaks: LeakWatch

let echo: Echo
let proxy: FaultProxy
const clients: Client[] = []

function client(): Client {
  const one = new Client(proxy.port)
  clients.push(one)
  return one
}

/** A client that the proxy has connected with the server. */
async function connected(): Promise<Client> {
  const one = client()
  await one.sends('a')
  await one.hasRead('a')
  return one
}

async function serverHas(text: string): Promise<void> {
  await vi.waitFor(() => {
    expect(echo.received).toBe(text)
  }, SOON)
}

beforeEach(async () => {
  leaks = watchLeaks()
  echo = new Echo()
  proxy = await startProxy(await echo.start())
})

afterEach(async () => {
  for (const one of clients.splice(0)) one.socket.destroy()
  await proxy.close()
  await echo.close()
  await leaks.assertNone()
})

describe('without a fault', () => {
  it('forwards both ways and counts', async () => {
    const one = await connected()
    await one.sends('bc')
    await one.hasRead('abc')
    expect(proxy.counters).toEqual({
      connections: 1,
      open: 1,
      resets: 0,
      requests: { bytes: 3, lost: 0, held: 0, delayed: 0 },
      replies: { bytes: 3, lost: 0, held: 0, delayed: 0 },
    })
  })

  it('passes on that the client closes, after its bytes', async () => {
    const one = await connected()
    one.socket.end('last')
    await one.isEnded('closed')
    expect(one.read).toBe('alast')
    await vi.waitFor(() => {
      expect(proxy.counters.open).toBe(0)
    }, SOON)
  })

  it('passes on that the server resets', async () => {
    const one = await connected()
    echo.sockets[0]?.resetAndDestroy()
    await one.isEnded('reset')
  })

  it('resets a client whose server is down', async () => {
    await echo.close()
    const one = client()
    await one.isEnded('reset')
    echo = new Echo()
    await echo.start()
  })
})

describe('a black hole', () => {
  it('forwards nothing, not even an end, and is over for connections that lost nothing', async () => {
    const silent = await connected()
    const idle = await connected()
    await proxy.drop()
    const late = client()
    await late.sends('x')
    await silent.sends('y')
    echo.sockets[0]?.write('z')
    await vi.waitFor(() => {
      expect(proxy.counters).toMatchObject({ requests: { lost: 2 }, replies: { lost: 1 } })
    }, SOON)
    expect([silent.ended, late.ended, idle.ended]).toEqual(['open', 'open', 'open'])
    expect(echo.received).toBe('aa')
    expect([silent.read, late.read]).toEqual(['a', ''])

    await proxy.pass()
    await silent.isEnded('reset')
    await late.isEnded('reset')
    await idle.sends('b')
    await idle.hasRead('ab')
    expect(proxy.counters.resets).toBe(2)
  })

  it('does not tell the server that the client is gone', async () => {
    const one = await connected()
    await proxy.drop()
    one.socket.destroy()
    const other = client()
    await other.sends('x')
    await vi.waitFor(() => {
      expect(proxy.counters.requests.lost).toBe(1)
    }, SOON)
    expect(echo.sockets[0]?.readableEnded).toBe(false)
    await proxy.pass()
    await vi.waitFor(() => {
      expect(echo.sockets[0]?.destroyed).toBe(true)
    }, SOON)
  })

  it('in one direction loses the requests only', async () => {
    const one = await connected()
    await proxy.dropRequests()
    await one.sends('x')
    echo.sockets[0]?.write('news')
    await one.hasRead('anews')
    expect(echo.received).toBe('a')
    await proxy.pass()
    await one.isEnded('reset')
  })

  it('in the other direction loses the replies only', async () => {
    const one = await connected()
    await proxy.dropReplies()
    await one.sends('x')
    await serverHas('ax')
    await vi.waitFor(() => {
      expect(proxy.counters.replies.lost).toBe(1)
    }, SOON)
    expect(one.read).toBe('a')
    await proxy.pass()
    await one.isEnded('reset')
  })
})

describe('a hold', () => {
  it('tells when the server has answered, and lets the answers go in order', async () => {
    const one = await connected()
    const hold = proxy.holdReplies()
    await one.sends('b')
    await hold.held
    expect(echo.received).toBe('ab')
    await one.sends('c')
    await serverHas('abc')
    expect(one.read).toBe('a')
    hold.release()
    await one.hasRead('abc')
    expect(one.ended).toBe('open')
  })

  it('can lose the answer with its connection, and no other', async () => {
    const one = await connected()
    const idle = await connected()
    const hold = proxy.holdReplies()
    await one.sends('b')
    await hold.held
    hold.lose()
    await one.isEnded('reset')
    expect(one.read).toBe('a')
    await idle.sends('c')
    await idle.hasRead('ac')
    expect(proxy.counters).toMatchObject({ resets: 1, replies: { held: 1, lost: 1 } })
  })

  it('keeps requests from the server', async () => {
    const one = await connected()
    const hold = proxy.holdRequests()
    await one.sends('b')
    await hold.held
    expect(echo.received).toBe('a')
    hold.release()
    await one.hasRead('ab')
  })

  it('ends with pass, and an earlier one cannot end a later one', async () => {
    const one = await connected()
    const first = proxy.holdReplies()
    await proxy.pass()
    const second = proxy.holdReplies()
    first.release()
    await one.sends('b')
    await second.held
    expect(one.read).toBe('a')
    await proxy.pass()
    await one.hasRead('ab')
  })
})

describe('a delay', () => {
  it('is at least as long as it says', async () => {
    const one = await connected()
    proxy.delay({ requestsMs: 40, repliesMs: 40 })
    const start = performance.now()
    await one.sends('b')
    await one.hasRead('ab')
    expect(performance.now() - start).toBeGreaterThanOrEqual(79)
    expect(proxy.counters).toMatchObject({ requests: { delayed: 1 }, replies: { delayed: 1 } })
  })

  it('keeps the order whatever the jitter', async () => {
    const one = await connected()
    const jitter = [30, 0, 20, 0, 10]
    let arrived = 0
    proxy.delay({
      requestsMs: () => {
        arrived += 1
        return jitter.shift() ?? 0
      },
    })
    for (const [index, letter] of ['b', 'c', 'd', 'e', 'f'].entries()) {
      await one.sends(letter)
      // Otherwise TCP would make one chunk of them.
      await vi.waitFor(() => {
        expect(arrived).toBe(index + 1)
      }, SOON)
    }
    await serverHas('abcdef')
    await one.hasRead('abcdef')
  })
})

describe('connections', () => {
  it('are reset all at once, and new ones are welcome', async () => {
    const [one, two] = [await connected(), await connected()]
    proxy.reset()
    await one.isEnded('reset')
    await two.isEnded('reset')
    await connected()
    expect(proxy.counters).toMatchObject({ resets: 2, connections: 3, open: 1 })
  })

  it('are refused until the proxy passes again, on the same port', async () => {
    const one = await connected()
    const { port } = proxy
    await proxy.refuse()
    await one.isEnded('reset')
    await client().isEnded('refused')
    await proxy.pass()
    expect(proxy.port).toBe(port)
    await connected()
  })
})
