/** Takes many ports, says which, and holds them until its standard input ends. */
import { takePort } from '../../src/testing/free-port.ts'

const ports: number[] = []
while (ports.length < 1_500) ports.push(await takePort('127.0.0.1'))
process.stdout.write(`${JSON.stringify(ports)}\n`)
process.stdin.resume()
