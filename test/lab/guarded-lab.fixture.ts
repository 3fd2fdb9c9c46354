/** A machine with pods, guarded: a lab, and `rampart standalone` that looks after it, as a user starts it. */
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { Standalone } from '../../apps/standalone/standalone.fixture.ts';
import { findClusterAccess } from '../../lib/kube/access/cluster-access.ts';
import { KubeClient } from '../../lib/kube/client/client.ts';
import { isNotFound } from '../../lib/kube/client/client-errors.ts';
import { namespaces } from '../../lib/kube/object/object.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import type { KiveAlert } from '../../guards/file-access/alert/alert.ts';
import {
  type KiveData,
  kiveDataNamespace,
  kiveDataType,
  kiveNodeStatusType,
  type KivePolicy,
  kivePolicyType,
  type KiveTrap,
} from '../../guards/file-access/api.ts';
import type { PolicyPart } from '../../guards/file-access/policy-status-schema.ts';
import { type Lab, type LabContainer, type LabPod, startLab } from './lab.ts';
import type { PodSpec } from './pod-config.ts';

/** Longer than anything takes here: what is waited for longer does not come. */
const PATIENCE_MS = 60_000;
const markerPolicy = 'marker';
const markerPath = '/marker';

/** An alert in one line: which trap, whose file, who, how. */
export function summary({ 'kive-policy-name': policy, metadata, pod, process }: KiveAlert): string {
  return `${policy} ${pod.namespace}/${pod.name}/${pod.container.name} ${metadata.path} ${process.binary} ${metadata.mask}`;
}

/**
 * Disposing it ends all pods and processes and removes all files.
 *
 * @example
 * await using guarded = await GuardedLab.start();
 * const pod = await guarded.lab.runPod({ name: 'web', labels: { app: 'web' } });
 * await guarded.setPolicy('shadow', [{ path: '/etc/shadow', matchAny: [{ pod: 'web' }] }]);
 * await guarded.dataCount('shadow', 1);
 * const alerts = await guarded.alertsOf(() => guarded.lab.exec(pod.containers.get('nginx')!, ['cat', '/etc/shadow']));
 */
export class GuardedLab implements AsyncDisposable {
  readonly lab: Lab;
  readonly standalone: Standalone;
  readonly #args: readonly string[];
  readonly #stack: AsyncDisposableStack;
  #client: KubeClient | undefined;
  #marker: LabContainer | undefined;

  private constructor(
    lab: Lab,
    standalone: Standalone,
    args: readonly string[],
    stack: AsyncDisposableStack,
  ) {
    [this.lab, this.standalone, this.#args, this.#stack] = [lab, standalone, args, stack];
  }

  /** Returns when accesses are alerted. `args` are more options of `rampart standalone`. */
  static async start(...args: readonly string[]): Promise<GuardedLab> {
    const stack = new AsyncDisposableStack();
    try {
      const lab = stack.use(await startLab());
      const guarded = new GuardedLab(lab, stack.use(new Standalone()), args, stack);
      await guarded.startRampart();
      await guarded.#placeMarker();
      return guarded;
    } catch (error) {
      await stack.disposeAsync();
      throw error;
    }
  }

  /** Also after `standalone.stop()`: with the same data. Earlier alerts are forgotten. */
  async startRampart(): Promise<void> {
    const { socketPath } = this.lab;
    this.#client?.[Symbol.dispose]();
    await this.standalone.start(
      ...['--guards', 'file-access', '--cri-socket', socketPath, '--metrics', '127.0.0.1:0'],
      ...this.#args,
    );
    await this.standalone.untilSaid(/guarding this machine with sensor mode/);
    const access = findClusterAccess({ path: this.standalone.at('data/kubeconfig') });
    this.#client = new KubeClient(access, { perSecond: 1000, burst: 1000 });
  }

  get client(): KubeClient {
    if (this.#client === undefined) throw new Error('rampart was not started');
    return this.#client;
  }

  /** How the sensor is attached: what it sees depends on it, see docs/sensor.md. */
  get mode(): string {
    return /guarding this machine with sensor mode (\w+)/.exec(this.standalone.stderr)?.[1] ?? '';
  }

  /** A directory of the host for volumes, gone at the end. */
  hostDirectory(name: string): string {
    const path = this.standalone.at(join('host', name));
    mkdirSync(path, { recursive: true });
    return path;
  }

  /** A pod, and its only container or the one with this name. */
  async run(
    spec: PodSpec,
    name = 'nginx',
  ): Promise<{ readonly pod: LabPod; readonly container: LabContainer }> {
    const pod = await this.lab.runPod(spec);
    const container = pod.containers.get(name) ?? [...pod.containers.values()][0];
    if (container === undefined) throw new Error(`pod ${spec.name} has no container`);
    return { pod, container };
  }

  /** Runs a script in a container, which has to end well; returns what it printed. */
  async sh(container: LabContainer, script: string): Promise<string> {
    const { exitCode, stdout, stderr } = await this.lab.exec(container, ['sh', '-c', script]);
    if (exitCode !== 0) throw new Error(`${script}: exit code ${exitCode}: ${stderr}`);
    return stdout;
  }

  /** A path of a container, as the host reaches it. */
  pathIn({ pid }: LabContainer, path: string): string {
    return `/proc/${pid}/root${path}`;
  }

  /** Creates a policy for pods of all namespaces, or puts its traps in place of those it has. */
  async setPolicy(name: string, traps: readonly KiveTrap[]): Promise<KivePolicy> {
    const policy = { metadata: { name, namespace: kiveDataNamespace }, spec: { traps } };
    return await this.client.apply(kivePolicyType, policy, {
      fieldManager: 'test',
      force: true,
    });
  }

  async policy(name: string): Promise<KivePolicy> {
    return await this.client.get(kivePolicyType, { namespace: kiveDataNamespace, name });
  }

  /** The node's report on it; undefined before the first one. */
  async partOf(policy: string): Promise<PolicyPart | undefined> {
    const { items } = await this.client.list(kiveNodeStatusType, { namespace: kiveDataNamespace });
    return items
      .flatMap(({ policies }) => policies)
      .find(({ namespace, name }) => namespace === kiveDataNamespace && name === policy);
  }

  /** Returns when the policy and all of its KiveData are gone. */
  async deletePolicy(name: string): Promise<void> {
    await this.client.delete(kivePolicyType, { namespace: kiveDataNamespace, name });
    await until(`${name} to be gone`, async () => {
      try {
        await this.policy(name);
        return false;
      } catch (error) {
        return isNotFound(error) && (await this.data(name)).length === 0;
      }
    });
  }

  /** The KiveData of a policy; of all but the marker without a name. */
  async data(policy?: string): Promise<KiveData[]> {
    const { items } = await this.client.list(kiveDataType, { namespace: kiveDataNamespace });
    return items.filter(({ metadata }) => {
      const name = metadata.annotations?.['kive-policy-name'];
      return policy === undefined ? name !== markerPolicy : name === policy;
    });
  }

  /** The KiveData of a policy when there are `count` of them, none being deleted, and all are watched. */
  async dataCount(policy: string, count: number, patienceMs: number = PATIENCE_MS): Promise<KiveData[]> {
    const found = await until(
      `${count} KiveData of ${policy}`,
      async () => {
        const data = await this.data(policy);
        return data.length === count && data.every(({ metadata }) => !metadata.deletionTimestamp) && data;
      },
      patienceMs,
    );
    // And the marker. Those of other policies may change meanwhile.
    await until('all of it to be watched', async () => {
      const { length } = await this.data();
      return (await this.metric('file_access_watched')) === length + 1;
    });
    return found;
  }

  /** `rampart_NAME`, summed over its labels. */
  async metric(name: string): Promise<number> {
    const url = /metrics on (\S+)/.exec(this.standalone.stderr)?.[1] ?? '';
    const text = await (await fetch(url)).text();
    const values = [...text.matchAll(new RegExp(`^rampart_${name}(?:\\{.*\\})? (\\S+)$`, 'gm'))];
    if (values.length === 0) throw new Error(`no metric rampart_${name}`);
    return values.reduce((sum, [, value]) => sum + Number(value), 0);
  }

  /** All alerts since rampart was started but those of the marker. */
  alerts(): KiveAlert[] {
    return this.standalone.alerts().filter((alert) => alert['kive-policy-name'] !== markerPolicy);
  }

  /**
   * An action's alerts, without earlier ones: the marker is read before and after, and the sensor reports
   * accesses in their order.
   */
  async alertsOf(action: () => unknown): Promise<KiveAlert[]> {
    const from = await this.#readMarker();
    await action();
    const to = await this.#readMarker();
    return this.standalone
      .alerts()
      .slice(from + 1, to)
      .filter((alert) => alert['kive-policy-name'] !== markerPolicy);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#client?.[Symbol.dispose]();
    await this.#stack.disposeAsync();
  }

  async #placeMarker(): Promise<void> {
    const containers = [{ name: 'marker' }];
    const { container } = await this.run({ name: 'marker', namespace: 'marker', containers });
    this.#marker = container;
    await until('the namespace of policies', () =>
      this.client.get(namespaces, { name: kiveDataNamespace }).then(
        () => true,
        (error: unknown) => !isNotFound(error),
      ),
    );
    await this.setPolicy(markerPolicy, [
      { path: markerPath, create: true, matchAny: [{ namespace: 'marker', pod: 'marker' }] },
    ]);
    await until('the marker to be watched', async () => (await this.metric('file_access_watched')) === 1);
  }

  /** Returns the place of its alert among all. */
  async #readMarker(): Promise<number> {
    if (this.#marker === undefined) throw new Error('no marker');
    const before = this.standalone.alerts().length;
    readFileSync(this.pathIn(this.#marker, markerPath));
    const isMine = (alert: KiveAlert): boolean =>
      alert['kive-policy-name'] === markerPolicy && alert.process.tgid === process.pid;
    await this.standalone.until(() => this.standalone.alerts().slice(before).some(isMine));
    return this.standalone.alerts().findIndex((alert, at) => at >= before && isMine(alert));
  }
}
