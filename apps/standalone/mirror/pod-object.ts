/** A pod of the machine as an object of the API. Pure: the two arguments decide what is written. */
import { objectAt, objectsAt, textAt, valueAt } from '../../../lib/json/fields.ts';
import type { JsonObject } from '../../../lib/json/json.ts';
import { apiTime } from '../../../lib/kube/object/api-time.ts';
import { labelKeyProblems, labelValueProblems } from '../../../lib/kube/selectors/label-names.ts';
import type { MachineContainer, MachinePod } from './machine-pod.ts';
import { mirrorAnnotation, runtimeUidAnnotation } from '../../../guard/mirrored.ts';

/** Which list of the spec a container is in. It never moves, since a pod's spec does not change. */
type ContainerList = 'containers' | 'ephemeralContainers' | 'initContainers';
const containerLists = ['initContainers', 'containers', 'ephemeralContainers'] as const;

interface PodPlace {
  readonly nodeName: string;
  /** The node's address: the `hostIP` of pods, and the IP of pods in the host's network. */
  readonly hostIp: string;
}

export interface DesiredPod {
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly spec: JsonObject;
  readonly status: JsonObject;
  /** Containers created after the pod was mirrored: they become ephemeral containers, the only kind that can be added. */
  readonly added: readonly JsonObject[];
}

/** A pod is mirrored once it has a container: the API accepts no pod without containers. */
export function canBeMirrored({ containers }: MachinePod): boolean {
  return containers.length > 0;
}

/** Its container lists cannot change later: the object is created once it is known which were init containers. */
export function canBeCreated({ isAsked }: MachinePod): boolean {
  return !isAsked;
}

/** @param old the mirrored pod in the API, `undefined` if it does not exist yet. */
export function desiredPod(pod: MachinePod, place: PodPlace, old: JsonObject | undefined): DesiredPod {
  const latest = latestOf(pod.containers);
  const known = knownContainers(old);
  const isNew = known.size === 0;
  const inits = isNew ? endedBeforeOthers(latest) : new Set<string>();
  const lists: Record<ContainerList, JsonObject[]> = {
    initContainers: [],
    containers: [],
    ephemeralContainers: [],
  };
  for (const [name, { list, spec }] of known) {
    // A container that the runtime has forgotten stays in the spec.
    const { image } = latest.get(name) ?? {};
    const mayChange = list !== 'ephemeralContainers' && image !== undefined && image !== '';
    lists[list].push(mayChange ? { ...spec, image } : spec);
  }
  const added: JsonObject[] = [];
  for (const { name, image } of latest.values()) {
    if (known.has(name)) continue;
    const spec = { name, image: image === '' ? 'unknown' : image };
    if (isNew) lists[inits.has(name) ? 'initContainers' : 'containers'].push(spec);
    else added.push(spec);
  }
  const { initContainers, containers } = lists;
  const statuses = (specs: readonly JsonObject[]): JsonObject[] =>
    specs.flatMap((spec) => {
      const container = latest.get(String(spec['name']));
      return container === undefined ? [] : [containerStatus(container, spec, pod.containers)];
    });
  const ofList = {
    initContainers: statuses(initContainers),
    containers: statuses(containers),
    ephemeralContainers: statuses([...lists.ephemeralContainers, ...added]),
  };
  return {
    ...metadataOf(pod),
    spec: {
      nodeName: place.nodeName,
      containers,
      ...(initContainers.length > 0 && { initContainers }),
      ...(pod.hostNetwork && { hostNetwork: true }),
      // Rampart restarts nothing, and mounts no token.
      enableServiceLinks: false,
      automountServiceAccountToken: false,
      terminationGracePeriodSeconds: 0,
      tolerations: [{ operator: 'Exists' }],
    },
    added,
    status: statusOf(pod, place, ofList),
  };
}

/**
 * Whether the object should be recreated: containers have started after all others had ended, so that those turn out to be init containers.
 * No running container is lost by that.
 */
export function isOutgrown(pod: MachinePod, old: JsonObject): boolean {
  const known = knownContainers(old);
  const latest = [...latestOf(pod.containers).values()];
  const isNew = ({ name }: MachineContainer): boolean => !known.has(name);
  return latest.some(isNew) && latest.every((one) => isNew(one) || one.state === 'exited');
}

/** The newest container of each name, in the order in which the names first appeared. */
function latestOf(containers: readonly MachineContainer[]): ReadonlyMap<string, MachineContainer> {
  const latest = new Map<string, MachineContainer>();
  for (const container of containers.toSorted((a, b) => a.createdMs - b.createdMs || a.attempt - b.attempt)) {
    latest.set(container.name, container);
  }
  return latest;
}

/** The names of containers that look like init containers, which the runtime does not mark: they ended well before any other started. */
function endedBeforeOthers(latest: ReadonlyMap<string, MachineContainer>): ReadonlySet<string> {
  const all = [...latest.values()];
  const inits = all.filter(
    (one) =>
      one.state === 'exited' &&
      one.exitCode === 0 &&
      one.finishedMs > 0 &&
      all.some((other) => other !== one && other.createdMs >= one.finishedMs) &&
      all.every(
        (other) => other === one || other.createdMs <= one.createdMs || other.createdMs >= one.finishedMs,
      ),
  );
  return new Set(inits.map(({ name }) => name));
}

function knownContainers(
  old: JsonObject | undefined,
): ReadonlyMap<string, { readonly list: ContainerList; readonly spec: JsonObject }> {
  const known = new Map<string, { list: ContainerList; spec: JsonObject }>();
  for (const list of containerLists) {
    for (const spec of objectsAt(old, 'spec', list)) known.set(textAt(spec, 'name'), { list, spec });
  }
  return known;
}

/** Labels by which a kubelet identifies the pod to the runtime. */
const kubeletLabels: ReadonlySet<string> = new Set([
  'io.kubernetes.pod.name',
  'io.kubernetes.pod.namespace',
  'io.kubernetes.pod.uid',
]);

function metadataOf(pod: MachinePod): Pick<DesiredPod, 'annotations' | 'labels'> {
  // A runtime accepts any text; a label that the API would refuse is left out: no selector could match it.
  const labels = Object.entries(pod.labels).filter(
    ([key, value]) =>
      !kubeletLabels.has(key) && labelKeyProblems(key).length === 0 && labelValueProblems(value).length === 0,
  );
  const annotations = Object.entries(pod.annotations).filter(
    ([key]) => labelKeyProblems(key.toLowerCase()).length === 0,
  );
  return {
    labels: Object.fromEntries(labels),
    annotations: {
      ...Object.fromEntries(annotations),
      [mirrorAnnotation]: pod.sandboxId,
      [runtimeUidAnnotation]: pod.uid,
    },
  };
}

function statusOf(
  pod: MachinePod,
  place: PodPlace,
  statuses: Readonly<Record<ContainerList, JsonObject[]>>,
): JsonObject {
  const ips = pod.hostNetwork && pod.ips.length === 0 && place.hostIp !== '' ? [place.hostIp] : pod.ips;
  const isReady = pod.ready && statuses.containers.every((one) => one['ready'] === true);
  const startedAt = time(pod.createdMs);
  const ready = isReady ? 'True' : 'False';
  return {
    phase: phaseOf(pod, statuses.containers),
    ...(place.hostIp !== '' && { hostIP: place.hostIp, hostIPs: [{ ip: place.hostIp }] }),
    ...(ips[0] !== undefined && { podIP: ips[0], podIPs: ips.map((ip) => ({ ip })) }),
    ...(startedAt !== undefined && { startTime: startedAt }),
    conditions: [
      { type: 'PodScheduled', status: 'True' },
      { type: 'Initialized', status: 'True' },
      { type: 'ContainersReady', status: ready },
      { type: 'Ready', status: ready },
    ],
    containerStatuses: statuses.containers,
    ...(statuses.initContainers.length > 0 && { initContainerStatuses: statuses.initContainers }),
    ...(statuses.ephemeralContainers.length > 0 && {
      ephemeralContainerStatuses: statuses.ephemeralContainers,
    }),
  };
}

/** A pod has ended only when its sandbox has ended as well: until then a container may be started again. */
function phaseOf({ ready }: MachinePod, statuses: readonly JsonObject[]): string {
  const isWaiting = (status: JsonObject): boolean => 'waiting' in objectAt(status, 'state');
  if (ready) return statuses.every(isWaiting) ? 'Pending' : 'Running';
  const failed = statuses.some((status) => valueAt(status, 'state', 'terminated', 'exitCode') !== 0);
  return failed ? 'Failed' : 'Succeeded';
}

function containerStatus(
  container: MachineContainer,
  spec: JsonObject,
  all: readonly MachineContainer[],
): JsonObject {
  const before = all
    .filter(({ name, id, state }) => name === container.name && id !== container.id && state === 'exited')
    .toSorted((a, b) => b.createdMs - a.createdMs)[0];
  const isRunning = container.state === 'running';
  return {
    name: container.name,
    image: spec['image'],
    imageID: container.imageId,
    containerID: container.id,
    ready: isRunning,
    started: isRunning,
    restartCount: container.attempt,
    state: stateOf(container),
    lastState: before === undefined ? {} : stateOf(before),
  };
}

function stateOf(container: MachineContainer): JsonObject {
  const startedAt = time(container.startedMs);
  switch (container.state) {
    case 'running':
      return { running: startedAt === undefined ? {} : { startedAt } };
    case 'created':
      return { waiting: { reason: 'ContainerCreating' } };
    case 'exited':
      return { terminated: ending(container, startedAt) };
    case 'unknown':
      return { waiting: { reason: 'ContainerStatusUnknown' } };
  }
}

function ending(
  { id, exitCode, reason, message, finishedMs }: MachineContainer,
  startedAt: string | undefined,
): JsonObject {
  const finishedAt = time(finishedMs);
  const times = {
    ...(startedAt !== undefined && { startedAt }),
    ...(finishedAt !== undefined && { finishedAt }),
    containerID: id,
  };
  // A kubelet's values for an unknown end (pkg/kubelet/kubelet_pods.go, convertToAPIContainerStatuses).
  if (exitCode === undefined) return { exitCode: 137, reason: 'ContainerStatusUnknown', ...times };
  const said = reason === '' ? (exitCode === 0 ? 'Completed' : 'Error') : reason;
  return { exitCode, reason: said, ...(message !== '' && { message }), ...times };
}

function time(wallMs: number): string | undefined {
  return wallMs > 0 ? apiTime(wallMs) : undefined;
}
