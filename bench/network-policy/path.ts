/** The way of packets that are measured. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';

import { NetworkNamespace } from '../../test/network-policy/namespaces.fixture.ts';

/** Allowed by the policies of the scene. */
export const port = 8080;
export const iperfPort = 9000;

const serving = `
  const server = require('node:net').createServer((socket) => void socket.on('error', () => {}).resume());
  server.listen(process.argv[1], () => process.stdout.write('listening'));
`;

/** A client and the last pod on two sides of a node. */
export class Path implements Disposable {
  readonly node = new NetworkNamespace();
  readonly client = new NetworkNamespace();
  readonly pod = new NetworkNamespace();
  readonly #children: ChildProcess[] = [];

  constructor(podAddress: string, clientAddress: string) {
    const { node } = this;
    node.run(() => execFileSync('sysctl', ['-qw', 'net.ipv4.ip_forward=1']));
    node.ip('link set lo up');
    for (const [name, end, address] of [
      ['pod', this.pod, podAddress],
      ['client', this.client, clientAddress],
    ] as const) {
      node.ip(
        `link add ${name} type veth peer name eth0 netns ${end.path}`,
        `addr add 169.254.1.1/32 dev ${name}`,
        `link set ${name} up`,
        `route add ${address}/32 dev ${name}`,
      );
      end.ip(
        'link set lo up',
        `addr add ${address}/32 dev eth0`,
        'link set eth0 up',
        'route add 169.254.1.1/32 dev eth0',
        'route add default via 169.254.1.1',
      );
    }
  }

  /** Takes connections, in a process of its own: what is garbage in this one is not to take part in it. */
  async serve(): Promise<void> {
    const server = this.pod.run(() =>
      spawn(process.execPath, ['-e', serving, String(port)], { stdio: ['ignore', 'pipe', 'inherit'] }),
    );
    this.#children.push(server);
    // It says so when it listens.
    await once(server.stdout as NodeJS.ReadableStream, 'data');
  }

  async serveIperf(): Promise<void> {
    const iperf = this.pod.run(() =>
      spawn('iperf3', ['-s', '--forceflush', '-p', String(iperfPort)], {
        stdio: ['ignore', 'pipe', 'ignore'],
      }),
    );
    this.#children.push(iperf);
    // It says so when it listens.
    await once(iperf.stdout as NodeJS.ReadableStream, 'data');
  }

  async run(program: string, args: readonly string[]): Promise<string> {
    const child = this.client.run(() => spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] }));
    let out = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (out += text));
    const [code] = (await once(child, 'close')) as [number | null];
    if (code !== 0) throw new Error(`${program} ended with ${code}: ${out}`);
    return out;
  }

  [Symbol.dispose](): void {
    for (const child of this.#children) child.kill('SIGKILL');
    for (const each of [this.node, this.client, this.pod]) each[Symbol.dispose]();
  }
}
