/**
 * The node part of network-policy over real packets: an API, the pods of a {@link Network} in it, and the guard in the network of their
 * node.
 */

import { shareMetrics } from '../../lib/kube/controller/shared-metrics.ts';
import { createMetrics, type Metrics } from '../../lib/telemetry/metrics.ts';
import { readFinding } from '../../guard/stream/read-finding.ts';
import { flowOf, type NetworkFlow } from '../../guards/network-policy/flow-line.ts';
import { startTestApi, type StartedApi } from '../../lib/apiserver/test-api.fixture.ts';
import { noContainers } from '../../lib/cri/container-source.ts';
import { runGivenNode } from '../../guard/part.fixture.ts';
import { Nftables } from '../../guards/network-policy/dataplane/nftables/nftables.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { networkPolicy } from '../../guards/network-policy/guard.ts';
import {
  follow,
  type NetworkPolicyNodeOptions,
  runNetworkPolicyNode,
} from '../../guards/network-policy/node/run.ts';
import type { Dataplane, DataplaneOptions } from '../../guards/network-policy/dataplane/dataplane.ts';
import { openNftablesDataplane } from '../../guards/network-policy/dataplane/nftables/dataplane.ts';
import { tableName } from '../../guards/network-policy/dataplane/nftables/names.ts';
import { assertFinding } from '../../guard/stream/finding-schema.fixture.ts';
import { parseRefusal, type Refusal } from '../../guards/network-policy/refusal-line.ts';
import { Network } from './network.fixture.ts';
import { PolicyApi } from './policy-api.fixture.ts';

export const nodeName = 'node-1';

export interface PolicyNodeOptions {
  readonly open?: (options?: Partial<DataplaneOptions>) => Dataplane;
  readonly bridge?: boolean;
}

/** Pods are labelled `pod: a` and so on, their namespaces `ns: x`. Disposing it ends all. */
export class PolicyNode extends PolicyApi {
  readonly network: Network;
  readonly lines: string[] = [];
  readonly #open: NonNullable<PolicyNodeOptions['open']>;
  #programmed = 0;
  #metrics: Metrics | undefined;

  constructor(api: StartedApi, network: Network, open: NonNullable<PolicyNodeOptions['open']>) {
    super(api);
    this.network = network;
    this.#open = open;
  }

  static async create({
    open = openNftablesDataplane,
    bridge = false,
  }: PolicyNodeOptions = {}): Promise<PolicyNode> {
    const api = await startTestApi({ name: 'policy-node', memory: true });
    const network = await Network.create({ bridge });
    const node = new PolicyNode(api, network, open);
    await node.createNamespaces('x', 'y', 'z');
    for (const host of network.pods) await node.createPod(host, nodeName);
    return node;
  }

  /**
   * Runs the guard until what is returned is called, as SIGTERM would end it.
   *
   * @param isReady - By how often the kernel has accepted the rules.
   */
  async start(
    { podCidrs, ...options }: Partial<NetworkPolicyNodeOptions> & { podCidrs?: readonly string[] } = {},
    dataplaneOptions: Partial<DataplaneOptions> = {},
    isReady = (programmed: number) => programmed > 0,
  ): Promise<() => Promise<void>> {
    const { namespace } = this.network.node;
    const before = this.#programmed;
    const metrics = (this.#metrics = await createMetrics());
    return await this.runReady(
      async (signal) => {
        using dataplane = namespace.run(() => this.#open(dataplaneOptions));
        await runGivenNode(
          networkPolicy,
          async (context) => {
            const followed = follow(context, podCidrs, options.mode);
            using _objects = followed.objects;
            const given = {
              dataplane,
              inNetwork: <T>(work: () => T) => namespace.run(work),
              // The machine's own bridges must not affect a test.
              bridges: { bridges: () => [] },
              onProgrammed: () => void this.#programmed++,
              ...options,
            };
            await runNetworkPolicyNode(context, given, followed);
          },
          {
            ...{ client: this.client, logger: this.logger, nodeName, signal, containers: noContainers },
            metrics: shareMetrics(metrics),
            sink: (line) => this.lines.push(line),
          },
        );
      },
      () => isReady(this.#programmed - before),
    );
  }

  get refusals(): Refusal[] {
    return this.lines.flatMap((line) => {
      assertFinding(line);
      return parseRefusal(line) ?? [];
    });
  }

  /** Allowed connections, with the names of the object and the policy of their lines. */
  get flows(): (NetworkFlow & { readonly object: string; readonly policy: string | undefined })[] {
    return this.lines.flatMap((line) => {
      assertFinding(line);
      const finding = readFinding(line);
      const flow = finding && flowOf(finding);
      if (flow === undefined) return [];
      const { object, policy } = finding!.head;
      const nameOf = (one: typeof policy) => (one === null ? undefined : `${one.namespace}/${one.name}`);
      return [{ ...flow, object: nameOf(object) ?? '', policy: nameOf(policy) }];
    });
  }

  /**
   * Metric of the guard that was started last: `name{label="value"}`; undefined: the series does not exist.
   */
  metric(series: string): number | undefined {
    const lines = this.#metrics?.registry.metrics().split('\n') ?? [];
    const found = lines.find((line) => line.startsWith(`rampart_network_policy_${series} `));
    return found === undefined ? undefined : Number(found.split(' ').at(-1));
  }

  /** Waits until the table of the node says so. */
  async untilRules(holds: (table: string) => boolean): Promise<void> {
    await until('the rules', () => holds(this.rules()));
  }

  rules(): string {
    const { namespace } = this.network.node;
    using nft = namespace.run(() => new Nftables());
    const tables = nft.list('list tables');
    return tables.includes(`table ${tableName}\n`) ? nft.list(`list table ${tableName}`) : '';
  }

  override async [Symbol.asyncDispose](): Promise<void> {
    try {
      await super[Symbol.asyncDispose]();
    } finally {
      await this.network[Symbol.asyncDispose]();
    }
  }
}
