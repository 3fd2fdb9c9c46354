/**
 * `rampart standalone` with this guard alone, on the kernel of this machine: with a bpffs of its own, for tests in a network
 * namespace of theirs.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { Commands } from '../../apps/commands.fixture.ts';
import { type Ran, Standalone } from '../../apps/standalone/standalone.fixture.ts';
import { findClusterAccess } from '../../lib/kube/access/cluster-access.ts';
import { KubeClient } from '../../lib/kube/client/client.ts';
import { resourceType } from '../../lib/kube/crd/resource.ts';
import type { KubeObject } from '../../lib/kube/object/object.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { bpfApplicationOf } from '../../guards/bpf-programs/api.ts';
import { bpfPrograms } from '../../guards/bpf-programs/guard.ts';
import { libbpf } from '../../lib/ebpf/ffi.ts';
import { openPin } from '../../guards/bpf-programs/kernel/pins/pin.ts';
import { pinDirectory } from '../../guards/bpf-programs/node/locked-host.ts';
import { keyOf } from '../../guards/bpf-programs/kernel/records.ts';

interface Conditioned extends KubeObject {
  readonly status?: { readonly conditions?: readonly { readonly type: string; readonly message?: string }[] };
}

export class BpfStandalone implements AsyncDisposable {
  readonly process = new Standalone();
  readonly bpffs = this.process.at('bpffs');
  readonly state = this.process.at('state');
  readonly #commands = new Commands();

  constructor() {
    mkdirSync(this.bpffs);
    execFileSync('mount', ['-t', 'bpf', 'bpf', this.bpffs]);
  }

  async start(...args: readonly string[]): Promise<void> {
    const own = ['--guards', 'bpf-programs', '--bpffs', this.bpffs, '--bpf-state', this.state];
    await this.process.start(...own, '--node-name', 'lab', ...args);
  }

  apply(text: string): Ran {
    this.process.write('applied.yaml', text);
    return this.process.kubectl('apply', '-f', this.process.at('applied.yaml'));
  }

  /** The one condition of an object, when it is of this type. */
  async untilCondition(type: string, ...object: readonly string[]): Promise<string> {
    const [name = '', kind, namespace] = object.toReversed();
    // BpfApplication is of both versions of the API, with another scope in each.
    const scope = namespace === undefined ? 'Cluster' : 'Namespaced';
    const resource = [...bpfPrograms.resources, bpfApplicationOf['v0.5'].resource].find(
      (one) => one.kind.toLowerCase() === kind && one.scope === scope,
    );
    if (resource === undefined) throw new Error(`there is no ${kind}`);
    using client = new KubeClient(findClusterAccess({ path: this.process.at('data/kubeconfig') }));
    const { message } = await until(`${object.join(' ')} to be ${type}`, async () => {
      const target = { name, ...(namespace !== undefined && { namespace }) };
      const one: Conditioned = await client.get(resourceType(resource, 'v1alpha1'), target);
      const [condition, ...others] = one.status?.conditions ?? [];
      return others.length === 0 && condition?.type === type && condition;
    });
    return message ?? '';
  }

  /** `rampart bpf ...` beside it. */
  bpf(...args: readonly string[]): Promise<Ran> {
    return this.rampart('bpf', ...args, '--bpffs', this.bpffs, '--bpf-state', this.state);
  }

  async rampart(...args: readonly string[]): Promise<Ran> {
    const { code, stdout, stderr } = await this.#commands.run(args);
    return { code, stdout: stdout.trimEnd(), stderr: stderr.trimEnd() };
  }

  /** The first u64 of a map of the one program of an owner. */
  counted(id: string, map = 'packets'): number {
    const directory = join(this.bpffs, pinDirectory, 'programs', keyOf(id));
    const [generation = ''] = readdirSync(directory);
    using pinned = openPin(join(directory, generation, 'maps', map));
    if (pinned === undefined) throw new Error(`${id} has no map ${map}`);
    const value = new Uint8Array(8);
    if (libbpf().mapLookup(pinned.fd, new Uint8Array(4), value) !== 0) throw new Error(`${id}: no value`);
    return Number(new DataView(value.buffer).getBigUint64(0, true));
  }

  /** The name of the one object of the node that a parent has. */
  objectOf(parent: string): string {
    const selector = `bpfman.io/ownedByProgram=${parent}`;
    return this.process.kubectl(
      'get',
      'bpfprograms',
      '-l',
      selector,
      '-o',
      'jsonpath={.items[*].metadata.name}',
    ).stdout;
  }

  /** Our pins. The kernel may have files of its own there (CONFIG_BPF_PRELOAD). */
  pinned(): string[] {
    return readdirSync(this.bpffs, { recursive: true, encoding: 'utf8' }).filter((path) =>
      path.startsWith(pinDirectory),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#commands[Symbol.asyncDispose]();
    await this.process.stop('SIGKILL');
    // Links and programs go with their pins; what is attached by netlink was deleted with its interfaces.
    if (readFileSync('/proc/self/mounts', 'utf8').includes(` ${this.bpffs} `)) {
      execFileSync('umount', [this.bpffs]);
    }
    await this.process[Symbol.asyncDispose]();
  }
}
