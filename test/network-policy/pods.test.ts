// A policy on real pods, from YAML to the kernel: containerd, a bridge, `rampart standalone` in the network of the node, and kubectl.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import { TemporaryDirectory } from '../../lib/testing/temporary-directory.fixture.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { type Lab, type LabPod, startLab } from '../lab/lab.ts';
import { labObstacle } from '../lab/obstacle.ts';

const rampart = join(import.meta.dirname, '../../bin/rampart');
const names = ['frontend', 'backend', 'db'] as const;
type Name = (typeof names)[number];

const policy = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: { name: db, namespace: default }
spec:
  podSelector: { matchLabels: { app: db } }
  ingress:
    - from: [{ podSelector: { matchLabels: { app: backend } } }]
      ports: [{ port: 80 }]
`;

/** Disposing it ends all processes and pods. */
class Node implements AsyncDisposable {
  readonly lab: Lab;
  readonly pods: ReadonlyMap<Name, LabPod>;
  readonly #directory = new TemporaryDirectory();
  readonly #stack = new AsyncDisposableStack();

  private constructor(lab: Lab, pods: ReadonlyMap<Name, LabPod>) {
    [this.lab, this.pods] = [lab, pods];
    this.#stack.use(this.#directory);
    this.#stack.use(lab);
  }

  static async start(): Promise<Node> {
    // Room for one pod more: those that come one after the other have the same address.
    const lab = await startLab({ subnet: '192.168.0.0/29' });
    const pods = new Map<Name, LabPod>();
    const script = 'while true; do echo hello | nc -l -p 80; done';
    try {
      for (const name of names) {
        const containers = [{ name: 'main', command: ['sh', '-c', script] }];
        pods.set(name, await lab.runPod({ name, namespace: 'default', labels: { app: name }, containers }));
      }
      return new Node(lab, pods);
    } catch (error) {
      await lab[Symbol.asyncDispose]();
      throw error;
    }
  }

  get data(): string {
    return this.#directory.at('data');
  }

  /** `rampart standalone` in the node's network. Returns what kills it. */
  async startRampart(): Promise<() => Promise<void>> {
    const child = this.lab.spawn(
      [
        ...[rampart, 'standalone', '--guards', 'network-policy', '--data', this.data],
        ...['--listen', '127.0.0.1:7443', '--cri-socket', this.lab.socketPath],
      ],
      { stdio: ['ignore', 'ignore', 'pipe'] },
    );
    const ended = once(child, 'close');
    let said = '';
    child.stderr?.setEncoding('utf8').on('data', (text: string) => (said += text));
    const kill = async (): Promise<void> => {
      child.kill('SIGKILL');
      await ended;
    };
    this.#stack.defer(kill);
    await until('the API', () => /serving https/.test(said));
    return kill;
  }

  /** A command among the node's mounts and in its network. */
  async run(
    command: readonly string[],
    input = '',
  ): Promise<{ readonly code: number; readonly out: string }> {
    const child = this.lab.spawn([...command], { stdio: ['pipe', 'pipe', 'pipe'] });
    const ended = once(child, 'close') as Promise<[number | null]>;
    let out = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => (out += text));
    }
    // Many commands end without reading it.
    child.stdin?.on('error', () => undefined).end(input);
    const [code] = await ended;
    return { code: code ?? -1, out };
  }

  async kubectl(input: string, ...args: readonly string[]): Promise<string> {
    const { code, out } = await this.run(
      ['kubectl', '--kubeconfig', `${this.data}/kubeconfig`, ...args],
      input,
    );
    assert.equal(code, 0, out);
    return out;
  }

  /** Whether the one is answered by the other. */
  async reaches(from: Name | LabPod, to: Name): Promise<boolean> {
    const [source, target] = [typeof from === 'string' ? this.pods.get(from) : from, this.pods.get(to)];
    const container = source?.containers.get('main');
    assert.ok(container && target);
    const command = ['sh', '-c', `nc -w 2 ${target.ip} 80 < /dev/null`];
    return (await this.lab.exec(container, command)).stdout.trim() === 'hello';
  }

  async rules(): Promise<string> {
    const { code, out } = await this.run(['nft', 'list', 'table', 'inet', 'rampart-network-policy']);
    return code === 0 ? out : '';
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}

suite('a NetworkPolicy on real pods', { skip: labObstacle() ?? false, timeout: 120_000 }, () => {
  test('holds while it is there, also when rampart was killed, and leaves nothing', async () => {
    await using node = await Node.start();
    for (const [from, to] of [
      ['frontend', 'db'],
      ['backend', 'db'],
    ] as const) {
      assert.ok(await node.reaches(from, to), `${from} reaches ${to} without a policy`);
    }
    const kill = await node.startRampart();
    assert.doesNotMatch(await node.rules(), /hook/, 'no packet passes rules where nothing is asked for');
    await node.kubectl(policy, 'apply', '-f', '-');
    await until('the rules', async () => (await node.rules()).includes('default/db'));
    assert.equal(await node.reaches('frontend', 'db'), false);
    assert.equal(await node.reaches('backend', 'db'), true);
    assert.equal(await node.reaches('frontend', 'backend'), true);
    const status = await node.run([rampart, 'status', '--data', node.data]);
    assert.match(status.out, /^default\/db +Ingress +1 +yes$/m);

    // Enforcement does not end with the process.
    await kill();
    assert.equal(await node.reaches('frontend', 'db'), false);
    assert.equal(await node.reaches('backend', 'db'), true);
    await node.startRampart();
    assert.equal(await node.reaches('frontend', 'db'), false);

    // A pod that comes later is in.
    const runLate = (name: string, app: string) =>
      node.lab.runPod({
        ...{ name, namespace: 'default', labels: { app } },
        containers: [{ name: 'main', command: ['sleep', '1000'] }],
      });
    const late = await runLate('late', 'backend');
    /** Where the policy allows its address, or the map has it as one that is not isolated. */
    const timesInRules = async (ip: string): Promise<number> =>
      (await node.rules()).match(new RegExp(`\\b${ip.replaceAll('.', '\\.')}\\b`, 'g'))?.length ?? 0;
    const whole = await until(
      'the rules of the late pod',
      async () => (await timesInRules(late.ip)) || undefined,
    );
    assert.ok(await node.reaches(late, 'db'));
    // One that goes leaves nothing behind; one that comes back under its name and address with another label is another one.
    await node.lab.removePod(late);
    await until('nothing of the late pod', async () => (await timesInRules(late.ip)) === 0);
    const stranger = await runLate('late', 'stranger');
    assert.equal(stranger.ip, late.ip);
    const part = await until(
      'the rules of its successor',
      async () => (await timesInRules(stranger.ip)) || undefined,
    );
    assert.ok(part < whole, `${part} of ${whole}`);
    assert.equal(await node.reaches(stranger, 'db'), false);
    // Also if the next pod has the address before any look.
    await node.lab.removePod(stranger);
    const heir = await runLate('heir', 'backend');
    assert.equal(heir.ip, late.ip);
    await until('the rules of the heir', async () => (await timesInRules(heir.ip)) === whole);
    assert.ok(await node.reaches(heir, 'db'));
    await node.lab.removePod(heir);
    const other = await runLate('other', 'stranger');
    assert.equal(other.ip, late.ip);
    await until('the rules of its successor', async () => (await timesInRules(other.ip)) === part);
    assert.equal(await node.reaches(other, 'db'), false);
    await node.kubectl('', 'delete', 'networkpolicy', 'db');
    await until('no rule that packets pass', async () => !/hook/.test(await node.rules()));
    assert.equal(await node.reaches('frontend', 'db'), true);
  });
});
