/**
 * The quality of service that a pod gets, by what its containers request and are limited to (kubernetes
 * `pkg/apis/core/v1/helper/qos`, and the documentation: https://kubernetes.io/docs/concepts/workloads/pods/pod-qos).
 */
import type { JsonObject } from '../../../json/json.ts';
import { objectAt, objectsAt } from '../../../json/fields.ts';
import { parseQuantity } from '../quantities.ts';

const counted = ['cpu', 'memory'] as const;

function amount(container: JsonObject, part: 'limits' | 'requests', name: string): bigint {
  return parseQuantity(objectAt(container, 'resources', part)[name])?.nanos ?? 0n;
}

export function qosClass(pod: JsonObject): 'BestEffort' | 'Burstable' | 'Guaranteed' {
  const containers = [...objectsAt(pod, 'spec', 'containers'), ...objectsAt(pod, 'spec', 'initContainers')];
  let [asksNothing, guaranteed] = [true, true];
  for (const container of containers) {
    for (const name of counted) {
      const [limit, request] = [amount(container, 'limits', name), amount(container, 'requests', name)];
      if (limit > 0n || request > 0n) asksNothing = false;
      if (limit === 0n || request !== limit) guaranteed = false;
    }
  }
  if (asksNothing) return 'BestEffort';
  return guaranteed ? 'Guaranteed' : 'Burstable';
}
