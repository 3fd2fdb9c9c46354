/** Namespaces and a dataplane under test, for all parts of the suite: the namespaces take longer to make than the packets. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { sampled, seed } from '../../../lib/testing/depth.fixture.ts';
import { type Host, Network } from '../../../test/network-policy/network.fixture.ts';
import { type ProbeOptions, reachable } from '../../../test/network-policy/probe.fixture.ts';
import type { Dataplane, DataplaneOptions } from './dataplane.ts';
import { type GivenPolicy, nodeRules } from './rules.fixture.ts';

export interface DataplaneUnderTest {
  readonly name: string;
  /** Is called in the node's network namespace. */
  open(options?: Partial<DataplaneOptions>): Dataplane;
  /** All of the node's kernel that a dataplane could touch, ours and others', without counts. */
  listing(node: Host): string;
  /** Adds what others have there: ours holds beside it. */
  addForeign(node: Host): void;
  /** Sends what comes to this node's port to a pod: a Service's NodePort. */
  addNodePort(node: Host, nodePort: number, address: string, port: number): void;
  /** Puts what an older version could have programmed in place of ours: as closed, and not to be changed where it is. */
  makeOld(node: Host): void;
  /** Parts of the suite that run at least, others with each seed; default: all. */
  readonly minParts?: number;
  /** Restarts of a dataplane while packets come; default: 60. */
  readonly restarts?: number;
  /** Mistakes by other programs, each with the drift to find. */
  readonly damages: readonly { readonly name: string; do(node: Host): void; readonly found: RegExp }[];
}

export type Allowed = (from: string, to: string) => boolean;
export const all: Allowed = () => true;
export const inNamespace = (name: string, namespace: string): boolean => name.startsWith(`${namespace}/`);
export const everyProbe: readonly ProbeOptions[] = (['TCP', 'UDP'] as const).flatMap((protocol) =>
  ([4, 6] as const).flatMap((family) =>
    ([80, 81] as const).map((each) => ({ protocol, family, port: each })),
  ),
);

export const ingress = (selects: readonly string[], ...allows: GivenPolicy['allows']): GivenPolicy => ({
  policy: `x/in-${selects.join('-').replaceAll('/', '.')}`,
  direction: 'ingress',
  selects,
  allows,
});
export const egress = (selects: readonly string[], ...allows: GivenPolicy['allows']): GivenPolicy => ({
  ...ingress(selects, ...allows),
  policy: `x/out-${selects.join('-').replaceAll('/', '.')}`,
  direction: 'egress',
});

/** Dispose it after the last test. */
export class DataplaneLab implements AsyncDisposable {
  readonly under: DataplaneUnderTest;
  #network: Network | undefined;
  #expectations = 0;

  constructor(under: DataplaneUnderTest) {
    this.under = under;
  }

  /** Before the first test. */
  async start(): Promise<void> {
    this.#network = await Network.create();
    this.under.addForeign(this.network.node);
  }

  get network(): Network {
    return this.#network ?? assert.fail('it has not started');
  }

  readonly pods = (...names: readonly string[]): Host[] =>
    this.network.pods.filter(({ name }) =>
      names.some((each) => each === name || each === name.split('/')[0]),
    );

  readonly open = (options?: Partial<DataplaneOptions>): Dataplane =>
    this.network.node.namespace.run(() => this.under.open(options));

  /**
   * The whole matrix: at depth 1 by each protocol, family and port; below, by one that is another one the next time, or by three
   * where what is allowed depends on it. A node always reaches its pods.
   */
  readonly expect = async (allowed: (options: ProbeOptions) => Allowed): Promise<void> => {
    const { pods, outside, node } = this.network;
    const hosts = [...pods, outside, node];
    for (const options of sampled(everyProbe, allowed.length === 0 ? 1 : 3, seed + this.#expectations++)) {
      const wanted = hosts.flatMap((from) =>
        hosts
          .filter((to) => to !== from && (from === node || allowed(options)(from.name, to.name)))
          .map((to) => `${from.name} -> ${to.name}`),
      );
      const found = await reachable(hosts, options);
      assert.deepEqual([...found].sort(), wanted.sort(), JSON.stringify(options));
    }
  };

  /** With a dataplane that is removed at the end, so that the next test begins with nothing. */
  readonly withDataplane = async (
    work: (dataplane: Dataplane) => Promise<void>,
    options?: Partial<DataplaneOptions>,
  ): Promise<void> => {
    using dataplane = this.open(options);
    try {
      await work(dataplane);
    } finally {
      await dataplane.remove();
    }
  };

  /** Programs the policies for all pods and looks who reaches whom. */
  readonly scenario = (
    name: string,
    policies: () => readonly GivenPolicy[],
    allowed: (options: ProbeOptions) => Allowed,
  ): void => {
    test(name, () =>
      this.withDataplane(async (dataplane) => {
        await dataplane.sync(nodeRules(this.network.pods, policies()));
        assert.deepEqual(await dataplane.verify(), []);
        await this.expect(allowed);
      }),
    );
  };

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#network?.[Symbol.asyncDispose]();
  }
}
