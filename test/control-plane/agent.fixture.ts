/**
 * A small real controller, `node agent.fixture.ts KUBECONFIG`: each Widget has a ConfigMap that it owns, and a note in
 * kube-system that nothing but the controller removes, by a finalizer. It says `running`, and runs until SIGTERM; then it
 * writes what became of its events.
 */
import { once } from 'node:events';

import { KubeClient } from '../../lib/kube/client/client.ts';
import { isNotFound } from '../../lib/kube/client/client-errors.ts';
import { findClusterAccess } from '../../lib/kube/access/cluster-access.ts';
import { type Condition, setCondition } from '../../lib/kube/object/conditions.ts';
import { done, type Result, runController } from '../../lib/kube/controller/controller.ts';
import { referenceTo } from '../../lib/kube/events/event-object.ts';
import { EventRecorder, type EventStats } from '../../lib/kube/events/event-recorder.ts';
import {
  addFinalizer,
  hasFinalizer,
  isDeleting,
  removeFinalizer,
} from '../../lib/kube/controller/finalizers.ts';
import { IndexedCache } from '../../lib/kube/cache/indexed-cache.ts';
import { configMaps, type KubeObject, type ResourceType } from '../../lib/kube/object/object.ts';
import { controllerOf, withController } from '../../lib/kube/object/owner-references.ts';
import { runReflector } from '../../lib/kube/cache/reflector.ts';
import { WorkQueue } from '../../lib/kube/controller/workqueue.ts';
import { widgets } from './reflected.fixture.ts';
import { patience } from '../../lib/testing/until.fixture.ts';

interface Widget extends KubeObject {
  readonly spec?: { readonly text?: string };
  readonly status?: { readonly conditions?: readonly Condition[]; readonly text?: string };
}
interface ConfigMap extends KubeObject {
  readonly data?: Readonly<Record<string, string>>;
}

const widgetType = widgets as ResourceType<Widget>;
const childType = configMaps as ResourceType<ConfigMap>;
const finalizer = 'follow.example.com/note';
const fieldManager = 'widget-agent';
const namespaceOfNotes = 'kube-system';

async function runAgent(kubeconfig: string, signal: AbortSignal): Promise<EventStats> {
  using client = new KubeClient(findClusterAccess({ path: kubeconfig }), { perSecond: 1000, burst: 1000 });
  await using recorder = new EventRecorder({
    client,
    controller: 'follow.example.com/agent',
    instance: 'test',
  });
  using queue = new WorkQueue({
    retryLimit: { perSecond: 200, burst: 200 },
    backoff: { baseMs: 5, maxMs: 500 },
  });
  const live = new IndexedCache<Widget>({ type: widgetType });
  const children = new IndexedCache<ConfigMap>({ type: childType });
  live.subscribe(({ key }) => queue.add(key));
  children.subscribe(({ object }) => {
    const owner = controllerOf(object);
    if (owner?.kind === widgetType.kind) queue.add(`${object.metadata.namespace ?? ''}/${owner.name}`);
  });
  const backoff = { baseMs: 20, maxMs: 500, jitter: 0.5 };
  const reflecting = [
    runReflector({ client, cache: live, signal, backoff }),
    runReflector({ client, cache: children, signal, backoff }),
  ];

  async function reconcile(key: string, stop: AbortSignal): Promise<Result> {
    const found = live.get(key);
    if (found === undefined) return done;
    const { namespace = '', name = '' } = found.metadata;
    const note = { namespace: namespaceOfNotes, name: `note-${namespace}-${name}` };
    const options = { fieldManager, signal: stop };
    if (isDeleting(found)) {
      if (!hasFinalizer(found, finalizer)) return done;
      await client.delete(childType, note, { signal: stop }).catch((error: unknown) => {
        if (!isNotFound(error)) throw error;
      });
      await removeFinalizer(client, widgetType, found, finalizer, options);
      return done;
    }
    const widget = await addFinalizer(client, widgetType, found, finalizer, options);
    const text = widget.spec?.text ?? '';
    const child: ConfigMap = { metadata: { namespace, name: `child-${name}` }, data: { text } };
    const current = children.get(`${namespace}/child-${name}`);
    if (
      current === undefined ||
      current.data?.['text'] !== text ||
      controllerOf(current)?.uid !== widget.metadata.uid
    ) {
      const forced = { ...options, force: true };
      await client.apply(childType, { metadata: note, data: { text } }, forced);
      await client.apply(childType, withController(child, widgetType, widget), forced);
      const said = current === undefined ? 'made its child' : 'changed its child';
      recorder.record({
        regarding: referenceTo(widgetType, widget),
        reason: 'Written',
        action: 'Write',
        note: said,
      });
    }
    const conditions = setCondition(widget.status?.conditions, {
      type: 'Ready',
      status: 'True',
      reason: 'ChildWritten',
      observedGeneration: widget.metadata.generation,
    });
    if (conditions !== widget.status?.conditions) {
      const status = { ...widget.status, conditions, text };
      await client.update(
        widgetType,
        { ...widget, status },
        { subresource: 'status', fieldManager, signal: stop },
      );
    }
    return done;
  }

  await Promise.race([Promise.all([live.synced, children.synced]), once(signal, 'abort')]);
  if (!signal.aborted) await runController({ name: 'widgets', queue, reconcile, signal, workers: 4 });
  await Promise.all(reflecting);
  await recorder.stop(patience());
  return recorder.stats();
}

const stop = new AbortController();
process.on('SIGTERM', () => stop.abort());
process.stdout.write('running\n');
const stats = await runAgent(process.argv[2] ?? '', stop.signal);
process.stdout.write(`${JSON.stringify(stats)}\n`);
