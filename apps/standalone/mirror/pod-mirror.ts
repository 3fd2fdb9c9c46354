import { hasCode, type VerbCalls } from '../../../lib/apiserver/upkeep/verb-calls.ts';
import { listAt, objectAt, textAt, valueAt } from '../../../lib/json/fields.ts';
import type { Registry } from '../../../lib/apiserver/resources/registry.ts';
import type { Resource } from '../../../lib/apiserver/resources/resource.ts';
import { deepEqual, type JsonObject } from '../../../lib/json/json.ts';
import type { EventRecorder } from '../../../lib/kube/events/event-recorder.ts';
import { type KubeObject, pods } from '../../../lib/kube/object/object.ts';
import { referenceTo } from '../../../lib/kube/events/event-object.ts';
import { Backoff } from '../../../lib/time/backoff.ts';
import { sleep, systemClock } from '../../../lib/time/clock.ts';
import { errorCodes, messageOf, RampartError } from '../../../lib/errors/errors.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import type { MachinePod, MachineState } from './machine-pod.ts';
import { annotationOf, isMirrored, runtimeUidAnnotation } from '../../../guard/mirrored.ts';
import { labelsOfUsers, mergedStatus, withMetadata } from './merge.ts';
import { desiredNode, type NodeFacts } from './node-object.ts';
import { canBeCreated, canBeMirrored, desiredPod, isOutgrown } from './pod-object.ts';

interface PodMirrorOptions {
  /** Make their requests as `mirrorUser`. */
  readonly calls: VerbCalls;
  readonly registry: Registry;
  readonly node: NodeFacts;
  readonly logger: Logger;
  /** Records an event for each pod that others created, since nothing runs such a pod. */
  readonly recorder: Pick<EventRecorder, 'record'>;
}

/** Why a pod that others created stays Pending. */
export const notRun =
  'nothing runs this pod, so it stays Pending: pods on this machine come from its container runtime. Start it there (crictl, the kubelet)';

/** How often the state is checked again without a notification, since others may have changed objects. */
const RESYNC_MS = 30_000;
/** Changes come in groups: a sandbox, its containers. */
const SETTLE_MS = 20;

/**
 * Level-triggered: pass the state of the machine to `notify`, and it writes the differences, retrying after failures. Mirrored objects that
 * are missing in the state are deleted, including those of an earlier process; while the state of the machine is unknown, pods are
 * unchanged and the node is not ready.
 */
export class PodMirror {
  readonly #options: PodMirrorOptions;
  #state: MachineState = { unavailable: 'the container runtime has not been queried yet' };
  #namespaces: ReadonlySet<string> = new Set();
  #wake = Promise.withResolvers<void>();
  #reported = new Map<string, string>();
  /** Uids of the pods that nothing runs, as of the last pass. */
  #unrun: ReadonlySet<unknown> = new Set();
  #synced = Promise.withResolvers<void>();

  constructor(options: PodMirrorOptions) {
    this.#options = options;
  }

  /** Sets the complete current state of the machine. Returns at once. */
  notify(state: MachineState): void {
    this.#state = state;
    if ('pods' in state) this.#namespaces = new Set(state.pods.map(({ namespace }) => namespace));
    this.#wake.resolve();
  }

  /** For admission: whether pods of the machine are in this namespace. */
  hasPods(namespace: string): boolean {
    return this.#namespaces.has(namespace);
  }

  /** Resolves when a state of the machine was written for the first time. */
  get synced(): Promise<void> {
    return this.#synced.promise;
  }

  /** Runs until the signal aborts. Throws only for faults of the program. */
  async run(signal: AbortSignal): Promise<void> {
    const backoff = new Backoff({ baseMs: 500, maxMs: RESYNC_MS });
    while (!signal.aborted) {
      this.#wake = Promise.withResolvers<void>();
      const state = this.#state;
      const isComplete = await this.#reconcile(state, signal);
      if (signal.aborted) return;
      if (isComplete) {
        backoff.reset();
        if ('pods' in state) this.#synced.resolve();
      }
      await this.#pause(isComplete ? RESYNC_MS : backoff.nextMs(), signal);
    }
  }

  /** Waits for a new state or until the time is up. */
  async #pause(ms: number, signal: AbortSignal): Promise<void> {
    const woken = new AbortController();
    const ended = AbortSignal.any([signal, woken.signal]);
    const timer = sleep(systemClock, ms, ended).catch(() => undefined);
    await Promise.race([timer, this.#wake.promise]);
    woken.abort();
    await timer;
    if (!signal.aborted) await sleep(systemClock, SETTLE_MS, signal).catch(() => undefined);
  }

  /** Returns whether everything is in the desired state. A failure of one pod does not affect others. */
  async #reconcile(state: MachineState, signal: AbortSignal): Promise<boolean> {
    const failures = new Map<string, string>();
    const attempt = async (what: string, action: () => Promise<void>): Promise<void> => {
      try {
        await action();
      } catch (error) {
        if (!signal.aborted) failures.set(what, messageOf(error));
      }
    };
    await attempt(`node ${this.#options.node.name}`, () => this.#writeNode(state, signal));
    await attempt('events', async () => this.#reportUnrun(await this.#existing(signal)));
    if ('pods' in state) {
      await attempt('pods', async () => {
        const existing = await this.#existing(signal);
        const wanted = wantedPods(state.pods);
        for (const [key, old] of existing) {
          if (wanted.has(key) || !isMirrored(old)) continue;
          await attempt(`pod ${key}`, () => this.#delete(old, signal));
        }
        for (const [key, pod] of wanted) {
          await attempt(`pod ${key}`, () => this.#writePod(pod, existing.get(key), signal));
        }
      });
    }
    this.#reportFailures(failures);
    return failures.size === 0;
  }

  /** Tells the pod's creator, who would otherwise wait for it to start. In a cluster, the scheduler would say why it does not. */
  #reportUnrun(existing: ReadonlyMap<string, JsonObject>): void {
    const unrun = [...existing.values()].filter((pod) => !isMirrored(pod)) as unknown as KubeObject[];
    for (const pod of unrun) {
      if (this.#unrun.has(pod.metadata.uid)) continue;
      this.#options.recorder.record({
        regarding: referenceTo(pods, pod),
        type: 'Warning',
        reason: 'FailedScheduling',
        action: 'Scheduling',
        note: notRun,
      });
    }
    this.#unrun = new Set(unrun.map(({ metadata }) => metadata.uid));
  }

  async #existing(signal: AbortSignal): Promise<Map<string, JsonObject>> {
    const items = await this.#options.calls.list(this.#resource('pods'), signal);
    return new Map(items.map(({ object }) => [keyOf(object), object]));
  }

  async #writePod(pod: MachinePod, found: JsonObject | undefined, signal: AbortSignal): Promise<void> {
    const { node, logger, calls } = this.#options;
    const resource = this.#resource('pods');
    const place = { namespace: pod.namespace, name: pod.name };
    let old = found;
    const isReplaced =
      old !== undefined && (!isMirrored(old) || !isSamePod(old, pod) || isOutgrown(pod, old));
    // Wait until it is known how its containers ended, or that query has timed out.
    if ((old === undefined || isReplaced) && !canBeCreated(pod)) return;
    if (old !== undefined && isReplaced) {
      if (!isMirrored(old)) {
        logger.warn({ pod: keyOf(old) }, 'replacing a manually created pod with the one that runs here');
      }
      await this.#delete(old, signal);
      old = undefined;
    }
    let desired = desiredPod(pod, { nodeName: node.name, hostIp: node.addresses[0] ?? '' }, old);
    if (old === undefined) {
      await this.#ensureNamespace(pod.namespace, signal);
      const metadata = { ...place, labels: desired.labels, annotations: desired.annotations };
      const object = { apiVersion: 'v1', kind: 'Pod', metadata, spec: desired.spec };
      old = (await calls.create(resource, pod.namespace, object, signal)).object;
      desired = desiredPod(pod, { nodeName: node.name, hostIp: node.addresses[0] ?? '' }, old);
    }
    old = await this.#write(resource, place, old, withMetadata(old, desired), signal);
    if (desired.added.length > 0) {
      const before = listAt(old, 'spec', 'ephemeralContainers');
      const spec = { ...objectAt(old, 'spec'), ephemeralContainers: [...before, ...desired.added] };
      old = await this.#write(resource, place, old, { spec }, signal, 'ephemeralcontainers');
    }
    await this.#write(resource, place, old, { status: mergedStatus(old, desired.status) }, signal, 'status');
  }

  async #writeNode(state: MachineState, signal: AbortSignal): Promise<void> {
    const { node, calls } = this.#options;
    const resource = this.#resource('nodes');
    const items = await calls.list(resource, signal);
    const place = { namespace: '', name: node.name };
    let old: JsonObject | undefined;
    for (const { object } of items) {
      if (nameOf(object) === node.name) old = object;
      // A Node from an earlier start with another name.
      else if (isMirrored(object))
        await calls.delete(resource, { namespace: '', name: nameOf(object) }, {}, signal);
    }
    const desired = desiredNode(node, state);
    if (old === undefined) {
      const object = { apiVersion: 'v1', kind: 'Node', metadata: { name: node.name, ...desired.metadata } };
      old = (await calls.create(resource, '', object, signal)).object;
    }
    const labels = { ...labelsOfUsers(old), ...desired.metadata.labels };
    old = await this.#write(resource, place, old, withMetadata(old, { ...desired.metadata, labels }), signal);
    await this.#write(resource, place, old, { status: mergedStatus(old, desired.status) }, signal, 'status');
  }

  /** Writes these fields if they differ; returns the resulting object. */
  async #write(
    resource: Resource,
    place: { readonly namespace: string; readonly name: string },
    old: JsonObject,
    fields: JsonObject,
    signal: AbortSignal,
    subresource?: string,
  ): Promise<JsonObject> {
    const next = { ...old, ...fields };
    if (deepEqual(old, next)) return old;
    return (await this.#options.calls.update(resource, place, structuredClone(next), signal, subresource))
      .object;
  }

  async #ensureNamespace(name: string, signal: AbortSignal): Promise<void> {
    try {
      const object = { apiVersion: 'v1', kind: 'Namespace', metadata: { name } };
      await this.#options.calls.create(this.#resource('namespaces'), '', object, signal);
    } catch (error) {
      if (!hasCode(error, 409)) throw error;
    }
  }

  async #delete(old: JsonObject, signal: AbortSignal): Promise<void> {
    const uid = textAt(old, 'metadata', 'uid');
    const place = { namespace: textAt(old, 'metadata', 'namespace'), name: nameOf(old) };
    try {
      await this.#options.calls.delete(this.#resource('pods'), place, { uid, gracePeriodSeconds: 0 }, signal);
    } catch (error) {
      if (!hasCode(error, 404)) throw error;
    }
  }

  #resource(plural: string): Resource {
    const resource = this.#options.registry.find('', 'v1', plural);
    if (resource === undefined)
      throw new RampartError(errorCodes.UNSUPPORTED, { what: `no ${plural} in this API` });
    return resource;
  }

  /** Logs each failure once, until its reason changes or it is over. */
  #reportFailures(failures: ReadonlyMap<string, string>): void {
    for (const [what, why] of failures) {
      if (this.#reported.get(what) !== why)
        this.#options.logger.warn({ why }, `cannot mirror ${what}; retrying`);
    }
    for (const what of this.#reported.keys()) {
      if (!failures.has(what)) this.#options.logger.info(`mirrored ${what}, or it is gone`);
    }
    this.#reported = new Map(failures);
  }
}

/** Keyed by namespace and name. If several sandboxes share them, the running one is used, otherwise the newest. */
function wantedPods(reported: readonly MachinePod[]): ReadonlyMap<string, MachinePod> {
  const wanted = new Map<string, MachinePod>();
  for (const pod of reported.toSorted(
    (a, b) => Number(a.ready) - Number(b.ready) || a.createdMs - b.createdMs,
  )) {
    if (canBeMirrored(pod)) wanted.set(`${pod.namespace}/${pod.name}`, pod);
  }
  return wanted;
}

/** Whether the object belongs to this very pod: one that was recreated with the same name is another pod. */
function isSamePod(old: JsonObject, pod: MachinePod): boolean {
  if (valueAt(old, 'metadata', 'deletionTimestamp') !== undefined) return false;
  return annotationOf(old, runtimeUidAnnotation) === pod.uid;
}

function nameOf(object: JsonObject): string {
  return textAt(object, 'metadata', 'name');
}

function keyOf(object: JsonObject): string {
  return `${textAt(object, 'metadata', 'namespace')}/${nameOf(object)}`;
}
