/**
 * GET of `pods/NAME/log`: the log of a container, for `kubectl logs`. The Pod determines the container, and whether it can
 * have a log; the log itself comes from `PodLogs`. Checks and messages, in this order, are those of kubernetes
 * `pkg/registry/core/pod/rest/log.go`, `pod/strategy.go` (LogLocation) and, for the answers of a kubelet,
 * `pkg/kubelet/kubelet_pods.go` (validateContainerLogStatus).
 */
import { apiTimeNs } from '../../kube/object/api-time.ts';
import { objectAt, objectsAt, textAt, valueAt } from '../../json/fields.ts';
import { apiErrors } from '../resources/api-error.ts';
import { Item } from '../resources/item.ts';
import { type Cause, fieldError } from '../schema/field-error.ts';
import type { JsonObject } from '../../json/json.ts';
import type { VerbContext } from './context.ts';
import { checkName } from './object-write.ts';
import { booleanOf, integerOf } from './query.ts';
import type { ResourceAnswer, ResourceRequest } from './request.ts';
import type { PodLogOptions } from './pod-logs.ts';

/** @throws {ApiError} */
export async function podLog(
  { store, clock, podLogs }: VerbContext,
  request: ResourceRequest,
): Promise<ResourceAnswer> {
  const { resource, namespace, name, query, signal } = request;
  checkName(name);
  const options = optionsOf(query, name, clock.wallMs());
  const stored = store.get(resource.storeName, namespace, name);
  if (stored === undefined) throw apiErrors.notFound(resource, name);
  const pod = Item.ofStored(resource, stored).object;
  const spec = objectAt(pod, 'spec');
  const container = containerOf(spec, name, query.get('container') ?? '');
  const nodeName = textAt(spec, 'nodeName');
  // The pod has no node yet, so it has written nothing.
  if (nodeName === '') return streamOf(nothing());
  if (podLogs === undefined) {
    throw apiErrors.internal(
      `the logs of pod ${JSON.stringify(name)} are on node ${JSON.stringify(nodeName)}, which this server cannot reach`,
    );
  }
  const previous = booleanOf(query, 'previous') ?? false;
  const containerId = containerIdOf(objectAt(pod, 'status'), name, container, previous);
  return streamOf(await podLogs({ namespace, pod: name, nodeName, container, containerId, options, signal }));
}

function streamOf(chunks: AsyncIterable<Uint8Array>): ResourceAnswer {
  return { kind: 'stream', stream: { contentType: 'text/plain', chunks } };
}

async function* nothing(): AsyncGenerator<Uint8Array> {}

/** @throws {ApiError} 400, 422 (`ValidatePodLogOptions`, pkg/apis/core/validation) */
function optionsOf(query: URLSearchParams, name: string, nowMs: number): PodLogOptions {
  const tailLines = integerOf(query, 'tailLines');
  const limitBytes = integerOf(query, 'limitBytes');
  const sinceSeconds = integerOf(query, 'sinceSeconds');
  const sinceTimeNs = timeOf(query.get('sinceTime') ?? '');
  const causes: Cause[] = [];
  if (tailLines !== undefined && tailLines < 0) {
    causes.push(fieldError.invalid('tailLines', tailLines, 'must be greater than or equal to 0'));
  }
  if (limitBytes !== undefined && limitBytes < 1) {
    causes.push(fieldError.invalid('limitBytes', limitBytes, 'must be greater than 0'));
  }
  if (sinceSeconds !== undefined && sinceTimeNs !== undefined) {
    causes.push(fieldError.forbidden('', 'at most one of `sinceTime` or `sinceSeconds` may be specified'));
  } else if (sinceSeconds !== undefined && sinceSeconds < 1) {
    causes.push(fieldError.invalid('sinceSeconds', sinceSeconds, 'must be greater than 0'));
  }
  // Refused, as in Kubernetes if the feature gate PodLogsQuerySplitStreams is off.
  if (query.has('stream')) causes.push(fieldError.forbidden('stream', 'may not be specified'));
  if (causes.length > 0) throw apiErrors.invalid({ group: '', kind: 'PodLogOptions' }, name, causes);
  const sinceMs = sinceSeconds === undefined ? undefined : nowMs - sinceSeconds * 1000;
  return {
    follow: booleanOf(query, 'follow') ?? false,
    sinceNs: sinceMs === undefined ? sinceTimeNs : BigInt(Math.floor(sinceMs)) * 1_000_000n,
    timestamps: booleanOf(query, 'timestamps') ?? false,
    tailLines,
    limitBytes,
  };
}

/** An RFC 3339 time in nanoseconds; `undefined` for an empty text. @throws {ApiError} 400 */
function timeOf(text: string): bigint | undefined {
  if (text === '') return undefined;
  const ns = apiTimeNs(text);
  if (ns !== undefined) return ns;
  throw apiErrors.badRequest(
    `parsing time ${JSON.stringify(text)}: it is not as "2006-01-02T15:04:05Z07:00"`,
  );
}

const containerLists = ['initContainers', 'containers', 'ephemeralContainers'] as const;
const statusLists = ['initContainerStatuses', 'containerStatuses', 'ephemeralContainerStatuses'] as const;

/** @throws {ApiError} 400 */
function containerOf(spec: JsonObject, pod: string, asked: string): string {
  const names = containerLists.flatMap((list) => namesIn(spec, list));
  if (asked !== '') {
    if (names.includes(asked)) return asked;
    throw apiErrors.badRequest(`container ${asked} is not valid for pod ${pod}`);
  }
  const own = namesIn(spec, 'containers');
  if (own.length === 1 && own[0] !== undefined) return own[0];
  const choice = own.length === 0 ? '' : `, choose one of: [${names.join(' ')}]`;
  throw apiErrors.badRequest(`a container name must be specified for pod ${pod}${choice}`);
}

/** @throws {ApiError} 400 if the container does not exist or has written nothing yet. */
function containerIdOf(status: JsonObject, pod: string, container: string, previous: boolean): string {
  const found = statusLists
    .flatMap((list) => objectsAt(status, list))
    .find((one) => textAt(one, 'name') === container);
  const which = `container ${JSON.stringify(container)} in pod ${JSON.stringify(pod)}`;
  if (found === undefined) throw apiErrors.badRequest(`${which} is not available`);
  const state = objectAt(found, 'state');
  const ended = textAt(found, 'lastState', 'terminated', 'containerID');
  if (previous) {
    if (ended === '') throw apiErrors.badRequest(`previous terminated ${which} not found`);
    return ended;
  }
  if (valueAt(state, 'running') !== undefined) return textAt(found, 'containerID');
  if (valueAt(state, 'terminated') !== undefined) {
    const id = textAt(state, 'terminated', 'containerID') || ended;
    if (id === '') throw apiErrors.badRequest(`${which} is terminated`);
    return id;
  }
  if (ended !== '') return ended;
  if (valueAt(state, 'waiting') === undefined) {
    throw apiErrors.badRequest(`${which} is waiting to start - no logs yet`);
  }
  const reason = textAt(state, 'waiting', 'reason');
  throw apiErrors.badRequest(`${which} is waiting to start: ${pullFailures.get(reason) ?? reason}`);
}

const pullFailures: ReadonlyMap<string, string> = new Map([
  ['ErrImagePull', "image can't be pulled"],
  ['ImagePullBackOff', 'trying and failing to pull image'],
]);

function namesIn(spec: JsonObject, list: string): readonly string[] {
  return objectsAt(spec, list).map((one) => textAt(one, 'name'));
}
