import { apiTime } from '../../kube/object/api-time.ts';
import type { Clock } from '../../time/clock.ts';
import type { Registry } from '../resources/registry.ts';
import { apiVersionOf, type Resource } from '../resources/resource.ts';
import type { Store } from '../store/store.ts';
import type { Admission } from './admission.ts';
import type { PodLogs } from './pod-logs.ts';

export interface VerbContext {
  readonly store: Store;
  readonly registry: Registry;
  readonly clock: Clock;
  /** Returns a number from 0 (inclusive) to 1 (exclusive). */
  readonly random: () => number;
  readonly admission: readonly Admission[];
  readonly minWatchMs: number;
  readonly bookmarkIntervalMs: number;
  readonly podLogs: PodLogs | undefined;
}

/** The present time in the format of `metadata`. */
export function nowText({ clock }: VerbContext): string {
  const now = clock.wallMs();
  const second = Math.floor(now / 1000);
  // Cached, because thousands of objects may be created in one second.
  if (second !== lastSecond) {
    lastSecond = second;
    lastText = apiTime(second * 1000);
  }
  return lastText;
}

let lastSecond = Number.NaN;
let lastText = '';

interface KindFacts {
  readonly apiVersion: string;
  /** The fields that only a subresource writes, as paths. */
  readonly resetPaths: readonly (readonly string[])[];
  readonly resetFields: ReadonlySet<string>;
}

const kinds = new WeakMap<Resource, KindFacts>();

export function factsOf(resource: Resource): KindFacts {
  let facts = kinds.get(resource);
  if (facts === undefined) {
    const { resetFields } = resource.strategy;
    facts = {
      apiVersion: apiVersionOf(resource),
      resetPaths: resetFields.map((name) => [name]),
      resetFields: new Set(resetFields),
    };
    kinds.set(resource, facts);
  }
  return facts;
}
