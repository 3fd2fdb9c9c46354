/**
 * Runs Kubewarden's PolicyServers in a cluster: for each, a Deployment with its Service, ConfigMap and
 * certificate; for each of its policies, the webhook that calls it once the server has loaded it, and its status.
 */
import type { GuardContext } from '../../../guard/context.ts';
import { removalOf } from '../../../guard/removal.ts';
import { orUndefined } from '../../../lib/kube/client/client-errors.ts';
import { type Condition, findCondition } from '../../../lib/kube/object/conditions.ts';
import { referenceTo } from '../../../lib/kube/events/event-object.ts';
import type { EventRecorder } from '../../../lib/kube/events/event-recorder.ts';
import { done, requeueAfter, type Result, runController } from '../../../lib/kube/controller/controller.ts';
import { addFinalizer, isDeleting, removeFinalizer } from '../../../lib/kube/controller/finalizers.ts';
import type { IndexedCache } from '../../../lib/kube/cache/indexed-cache.ts';
import { keyQueue } from '../../../lib/kube/controller/key-queue.ts';
import { whenSynced } from '../../../lib/kube/controller/run-parts.ts';
import {
  configMaps,
  deployments,
  type KubeObject,
  type ResourceType,
} from '../../../lib/kube/object/object.ts';
import { type AnyKubewardenPolicy, kubewardenTypes, type PolicyServer, policyServerType } from '../api.ts';
import type { PolicySet } from '../policies/policy-set.ts';
import type { Scanner } from '../scanner/scanner.ts';
import { type ExceptionSet, exceptionsFile } from '../exceptions/exception-set.ts';
import { entriesOf, policiesFileOf } from './policies-entry.ts';
import { canRun, type Scheduled, scheduled } from './scheduled-policies.ts';
import { ServedPolicies } from './served-policies.ts';
import { currentCertificate, trusted } from './server-certificates.ts';
import { fieldManager, StoredCertificates } from './stored-certificates.ts';
import {
  budgetType,
  hasReadyPod,
  isRolledOut,
  policiesKey,
  readyPodsOf,
  serverHosts,
  serverName,
  serverObjects,
  serviceReference,
  type Wanted,
} from './server-objects.ts';
import { serverLabel } from '../server-label.ts';
import { askPods, type PodStates } from './server-pods.ts';
import { serverReady, withAudit, withPart, withPodStates, withReadiness } from './server-status.ts';

export interface PolicyServersOptions {
  /** Namespace of the servers. */
  readonly namespace: string;
  /** Returns Rampart's image. Only called if there is a PolicyServer. */
  readonly image: (signal: AbortSignal) => Promise<string>;
  /** The results of opening the policies in this process: only those that can run are served. */
  readonly trials: Pick<PolicySet, 'onTried' | 'opening' | 'refusal'>;
  /** Exceptions for policy servers. Default: none. */
  readonly exceptions?: ExceptionSet;
  /**
   * The audit by this process, whose progress is in the status of each PolicyServer. Default: no progress.
   */
  readonly audit?: Pick<Scanner, 'lastPass' | 'onPassChange' | 'passProgress'>;
  /** Receives a function that counts the ready pods of each PolicyServer. The result is disposed at the end. */
  readonly readings?: (readyPods: () => Map<string, number>) => Disposable;
  /** For tests. Default: the machine's clock. */
  readonly now?: () => Date;
  /** For tests. Interval at which pods that do not evaluate a policy are asked for its state. Default: 10 s. */
  readonly askAgainMs?: number;
}

const finalizer = 'kubewarden.io/finalizer';
/** How often certificates are checked, and manual changes are reverted. */
const RESYNC_MS = 10 * 60_000;
const PROGRESS_MS = 30_000;
/** Pods that do not evaluate a policy retry by themselves, and do not report it if that succeeds. */
const ASK_AGAIN_MS = 10_000;
/** Limit for removing webhooks: a terminating pod has 30 s, including the time for finalizers. */
const WITHDRAW_MS = 10_000;

/**
 * Runs until the signal of the context aborts. The objects stay: servers keep running without the operator. Only
 * if Rampart itself is being removed are its webhooks deleted.
 */
export async function runPolicyServers(context: GuardContext, options: PolicyServersOptions): Promise<void> {
  const { signal, logger, metrics } = context;
  const servers = new PolicyServers(context, options);
  using queue = keyQueue();
  using subscriptions = new DisposableStack();
  if (options.readings !== undefined) subscriptions.use(options.readings(() => servers.readyPods()));
  await whenSynced(servers.caches, signal, async () => {
    const add = (key: string): void => queue.add(key);
    for (const name of servers.names()) add(name);
    servers.subscribe(subscriptions, add);
    for (const name of await servers.leftBehind()) add(name);
    await runController({
      ...{ name: 'policy-servers', queue, signal, logger, metrics: metrics?.controllers },
      reconcile: (name, stop) => servers.reconcile(name, stop),
    });
  });
  const removal = removalOf(signal);
  if (removal === undefined) return;
  try {
    await servers.withdrawAll(removal.message, AbortSignal.timeout(WITHDRAW_MS));
  } catch (err) {
    logger.error({ err }, 'policies may say that they are enforced, and are not: Rampart is being removed');
  }
}

class PolicyServers {
  readonly #context: GuardContext;
  readonly #options: PolicyServersOptions;
  readonly #servers: IndexedCache<PolicyServer>;
  readonly #deployments: IndexedCache<KubeObject>;
  readonly #recorder: EventRecorder;
  readonly #certificates: StoredCertificates;
  readonly #served: ServedPolicies;
  readonly #policies: readonly (readonly [ResourceType, IndexedCache<AnyKubewardenPolicy>])[];

  constructor(context: GuardContext, options: PolicyServersOptions) {
    this.#context = context;
    this.#options = options;
    this.#servers = context.cache<PolicyServer>({ type: policyServerType });
    this.#deployments = context.cache<KubeObject>({
      type: deployments,
      namespace: options.namespace,
      labelSelector: 'app.kubernetes.io/component=policy-server',
    });
    this.#recorder = context.recorder();
    this.#certificates = new StoredCertificates(context.client, options.namespace);
    this.#served = new ServedPolicies(context.client, this.#recorder, options.trials);
    this.#policies = kubewardenTypes.map(
      (type) => [type, context.cache<AnyKubewardenPolicy>({ type })] as const,
    );
  }

  get caches(): readonly { readonly synced: Promise<void> }[] {
    const { exceptions } = this.#options;
    return [
      ...[this.#servers, this.#deployments, ...this.#policies.map(([, cache]) => cache)],
      // Without waiting for the exceptions, a restart would briefly take them from the servers.
      ...(exceptions === undefined ? [] : [{ synced: exceptions.complete }]),
    ];
  }

  names(): string[] {
    return [...this.#servers.keys()];
  }

  /** Number of ready pods, keyed by the name of the PolicyServer. */
  readyPods(): Map<string, number> {
    const ready = new Map(this.names().map((name) => [name, 0]));
    for (const deployment of this.#deployments.list()) {
      const name = deployment.metadata.labels?.[serverLabel] ?? '';
      if (ready.has(name)) ready.set(name, readyPodsOf(deployment));
    }
    return ready;
  }

  subscribe(stack: DisposableStack, add: (name: string) => void): void {
    stack.use(this.#servers.subscribe(({ key }) => add(key)));
    stack.use(
      this.#deployments.subscribe(({ object, previous }) => {
        const name = (object ?? previous)?.metadata.labels?.[serverLabel];
        if (name !== undefined) add(name);
      }),
    );
    const { trials, audit, exceptions } = this.#options;
    stack.use(trials.onTried(({ spec }) => add(spec.policyServer)));
    const addAll = (): void => {
      for (const name of this.names()) add(name);
    };
    if (audit !== undefined) stack.use(audit.onPassChange(addAll));
    if (exceptions !== undefined) stack.use(exceptions.onChange(addAll));
    for (const [, cache] of this.#policies) {
      stack.use(
        cache.subscribe(({ object, previous }) => {
          for (const each of [object, previous]) if (each !== undefined) add(each.spec.policyServer);
        }),
      );
    }
  }

  /** Servers whose webhooks exist, including those deleted while no operator ran. */
  leftBehind(signal = this.#context.signal): Promise<Set<string>> {
    return this.#served.servers(signal);
  }

  /** Deletes all webhooks because Rampart is being removed, and all servers with it. */
  async withdrawAll(why: string, signal: AbortSignal): Promise<void> {
    for (const name of await this.leftBehind(signal))
      await this.#served.withdraw(name, this.#policiesOf(name), why, signal);
  }

  async reconcile(name: string, signal: AbortSignal): Promise<Result> {
    const server = this.#servers.get(name);
    const policies = this.#policiesOf(name);
    if (server === undefined || isDeleting(server)) {
      const why =
        server === undefined
          ? `there is no PolicyServer ${name}`
          : `the PolicyServer ${name} is being deleted`;
      await this.#served.withdraw(name, policies, why, signal);
      if (server !== undefined) {
        await removeFinalizer(this.#context.client, policyServerType, server, finalizer, {
          signal,
          fieldManager,
        });
      }
      return done;
    }
    const hasReplicas = server.spec.replicas > 0;
    if (!hasReplicas)
      await this.#served.withdraw(name, policies, `the PolicyServer ${name} has no replicas`, signal);
    await addFinalizer(this.#context.client, policyServerType, server, finalizer, { signal, fieldManager });
    const { namespace } = this.#options;
    const image = await this.#options.image(signal);
    const now = this.#options.now?.() ?? new Date();
    const authority = await this.#certificates.authority(now, signal);
    const hosts = serverHosts(server, namespace);
    const certificate = currentCertificate(await this.#certificates.certificate(serverName(server), signal), {
      authority,
      hosts,
      now,
    });
    const policiesFile = await this.#policiesFile(server, policies, signal);
    const origins = policies.map(({ type, object }) => `${type.kind}/${object.metadata.name}`);
    const exceptions = exceptionsFile(this.#options.exceptions?.objects ?? [], new Set(origins));
    const parts = serverObjects({ server, namespace, policiesFile, exceptions, certificate, image });
    const ids = [...entriesOf(policiesFile).keys()];
    // The Deployment comes from the API: the cached one may be older.
    const { deployment, states } = await this.#applyParts(server, parts, ids, signal);
    if (!hasReplicas) return requeueAfter(this.#resyncMs());
    const resyncMs = this.#resyncMs(states, ids);
    if (!isRolledOut(deployment)) {
      await this.#served.whileRollingOut(name, policies, states, signal);
      return requeueAfter(resyncMs);
    }
    await this.#served.serve(name, policies, states, {
      ...{ service: serviceReference(server, namespace), authorities: trusted(authority), signal },
      systemNamespace: namespace,
    });
    return requeueAfter(resyncMs);
  }

  /**
   * When to check a server again: soon if a pod does not evaluate a policy, or while an audit runs, whose progress
   * has to be written.
   *
   * @param ids - IDs of the policies that the server's pods should evaluate.
   */
  #resyncMs(states?: PodStates, ids: readonly string[] = []): number {
    if (states !== undefined && ids.some((id) => states.missing(id) !== undefined))
      return this.#options.askAgainMs ?? ASK_AGAIN_MS;
    const isDue = this.#options.audit?.passProgress !== undefined || (states?.unread.length ?? 0) > 0;
    return isDue ? PROGRESS_MS : RESYNC_MS;
  }

  /**
   * Writes what a server needs, and reports the outcome in its status.
   *
   * @param ids - IDs of the server's policies. @returns the Deployment, and the states that its pods report;
   * without states if no pod is ready
   */
  async #applyParts(
    server: PolicyServer,
    parts: readonly Wanted[],
    ids: readonly string[],
    signal: AbortSignal,
  ): Promise<{ readonly deployment: KubeObject; readonly states: PodStates | undefined }> {
    const { client } = this.#context;
    const { name = '' } = server.metadata;
    let conditions = server.status?.conditions;
    let deployment: KubeObject | undefined;
    let states: PodStates | undefined;
    try {
      for (const { type, object } of parts) {
        try {
          const applied = await this.#apply(type, object, signal);
          if (type === deployments) deployment = applied;
          conditions = withPart(conditions, server, type);
        } catch (error) {
          signal.throwIfAborted();
          conditions = withPart(conditions, server, type, (error as Error).message);
          throw error;
        }
      }
      if (!parts.some(({ type }) => type === budgetType)) {
        const target = { name: serverName(server), namespace: this.#options.namespace };
        await orUndefined(client.delete(budgetType, target, { signal }));
        conditions = withPart(conditions, server, budgetType);
      }
      if (deployment !== undefined) {
        conditions = withReadiness(conditions, server, hasReadyPod(deployment));
        states = await this.#podStates(name, deployment, signal);
        conditions = withPodStates(conditions, server, states, ids);
      }
      conditions = withAudit(conditions, server, this.#options.audit);
    } finally {
      if (conditions !== server.status?.conditions && !signal.aborted) {
        const patch = { type: 'merge', body: { status: { conditions } } } as const;
        const target = { name, subresource: 'status' };
        await orUndefined(client.patch(policyServerType, target, patch, { fieldManager, signal }));
        this.#announce(server, conditions);
      }
    }
    if (deployment === undefined) throw new TypeError('a policy server has a Deployment');
    return { deployment, states };
  }

  async #podStates(
    server: string,
    deployment: KubeObject,
    signal: AbortSignal,
  ): Promise<PodStates | undefined> {
    if (!hasReadyPod(deployment)) return undefined;
    const { namespace } = this.#options;
    const isRollingOut = !isRolledOut(deployment);
    return askPods(this.#context.client, { server, namespace, isRollingOut }, signal);
  }

  /** Announces that a server has lost its last ready pod, or has one again. */
  #announce(server: PolicyServer, conditions: readonly Condition[] | undefined): void {
    const before = findCondition(server.status?.conditions, serverReady);
    const now = findCondition(conditions, serverReady);
    if (before === undefined || now === undefined || before.status === now.status) return;
    this.#recorder.record({
      regarding: referenceTo(policyServerType, server),
      type: now.status === 'True' ? 'Normal' : 'Warning',
      reason: now.reason,
      action: 'Serving',
      note: now.message,
    });
  }

  /** The file for a server. If the current version of a policy cannot run, its previous version is served, if there is one. */
  async #policiesFile(
    server: PolicyServer,
    policies: readonly Scheduled[],
    signal: AbortSignal,
  ): Promise<string> {
    const { namespace } = this.#options;
    const target = { name: serverName(server), namespace };
    const before = await orUndefined(this.#context.client.get(configMaps, target, { signal }));
    const entries = entriesOf(before?.data?.[policiesKey]);
    const runnable = policies.filter(canRun);
    const kept = policies.filter((one) => !canRun(one) && entries.has(one.id));
    return policiesFileOf(
      runnable.flatMap(({ policy }) => policy ?? []),
      new Map(kept.map(({ id }) => [id, entries.get(id)])),
      server.spec.namespacedPoliciesCapabilities,
    );
  }

  #policiesOf(server: string): Scheduled[] {
    return this.#policies.flatMap(([type, cache]) =>
      [...cache.list()]
        .filter((object) => object.spec.policyServer === server && !isDeleting(object))
        .map((object) => scheduled(type, object, this.#options.trials.refusal(type, object))),
    );
  }

  #apply(type: ResourceType, object: KubeObject, signal: AbortSignal): Promise<KubeObject> {
    return this.#context.client.apply(type, object, { fieldManager, force: true, signal });
  }
}
