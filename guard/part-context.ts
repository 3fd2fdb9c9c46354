import { EventRecorder } from '../lib/kube/events/event-recorder.ts';
import type { KubeClient } from '../lib/kube/client/client.ts';
import type { SharedCaches } from '../lib/kube/cache/shared-caches.ts';
import type { SharedMetrics } from '../lib/kube/controller/shared-metrics.ts';
import type { Health } from '../lib/telemetry/health.ts';
import type { Logger } from '../lib/telemetry/log.ts';
import type { GuardContext, PartHealth } from './context.ts';
import type { Guard, HealthPart } from './guard.ts';
import type { FindingSink } from './stream/finding-stream.ts';

/** What all guards of a process share. */
export interface GuardProcess {
  readonly client: KubeClient;
  readonly logger: Logger;
  readonly identity: string;
  readonly health: Health;
  readonly metrics: SharedMetrics | undefined;
  readonly caches: SharedCaches;
  /** Takes the findings of all guards, each with the guard's name. Never waits. */
  readonly sink: FindingSink;
}

const RECORDER_STOP_MS = 2000;
const MAX_INSTANCE = 128;

/** The context for one run of a part. Its resources are released with `stack`, which the caller disposes of afterwards. */
export function partContext(
  guard: Pick<Guard, 'name' | 'health'>,
  on: HealthPart['on'],
  process: GuardProcess,
  { signal, stack }: { readonly signal: AbortSignal; readonly stack: AsyncDisposableStack },
): GuardContext {
  const { client, logger, identity, metrics, caches, sink } = process;
  const health = partHealth(guard, on, process.health, stack);
  return {
    guard: guard.name,
    ...{ client, signal, logger, identity, health, metrics },
    sink: (line) => sink(guard.name, line),
    recorder(limits) {
      const recorder = new EventRecorder({
        client,
        controller: `rampart.dev/${guard.name}`,
        instance: identity.slice(0, MAX_INSTANCE),
        logger,
        limits,
      });
      stack.defer(() => recorder.stop(AbortSignal.timeout(RECORDER_STOP_MS)));
      return recorder;
    },
    cache(query, part) {
      const cache = caches.use(query, signal);
      if (part !== undefined) health.ready(part, () => (cache.isSynced ? undefined : 'not listed yet'));
      return cache;
    },
  };
}

/** The name of a health part: `file-access-node-pods` on a node, `file-access-pods` in the operator, since one process may run both. */
export function healthName(guard: string, on: HealthPart['on'], part: string): string {
  const prefix = on === 'node' ? `${guard}-node` : guard;
  return part === '' ? prefix : `${prefix}-${part}`;
}

/**
 * The parts that must be healthy for the guard to be ready, by their names in /readyz; the guard itself is
 * the first.
 */
export function readinessParts(
  { name, health = [] }: Pick<Guard, 'name' | 'health'>,
  on: HealthPart['on'],
): string[] {
  const declared = health.filter((part) => part.on === on && part.alive !== true).map((part) => part.name);
  return ['', ...declared].map((part) => healthName(name, on, part));
}

function partHealth(
  { name, health: declared = [] }: Pick<Guard, 'name' | 'health'>,
  on: HealthPart['on'],
  health: Health,
  stack: AsyncDisposableStack,
): PartHealth {
  const add =
    (kind: 'ready' | 'alive'): PartHealth['ready'] =>
    (part, ask, remark) => {
      const isDeclared = declared.some(
        (one) => one.on === on && one.name === part && (one.alive === true) === (kind === 'alive'),
      );
      if (!isDeclared)
        throw new TypeError(`guard ${name} declares no health part "${part}" (${kind}, ${on})`);
      return stack.use(health[kind](healthName(name, on, part), ask, remark));
    };
  return { ready: add('ready'), alive: add('alive') };
}
