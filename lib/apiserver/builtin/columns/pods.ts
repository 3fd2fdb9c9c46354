/** The columns of `kubectl get pods` (kubernetes `pkg/printers/internalversion/printers.go`, printPod). */
import type { Column } from '../../resources/resource.ts';
import type { JsonObject } from '../../../json/json.ts';
import { numberAt, objectAt, objectsAt, textAt, valueAt } from '../../../json/fields.ts';
import { ageColumn, column, nameColumn, since } from './column.ts';

interface Summary {
  readonly ready: number;
  readonly total: number;
  readonly status: string;
  readonly restarts: number;
  /** When a container was last restarted; '' when none was. */
  readonly lastRestart: string;
}

const summaries = new WeakMap<JsonObject, Summary>();

/** Cached, since several columns of a row need it. */
function summaryOf(pod: JsonObject): Summary {
  let summary = summaries.get(pod);
  if (summary === undefined) summaries.set(pod, (summary = summarize(pod)));
  return summary;
}

/** Totals over several containers, and the status that follows from them. */
interface Tally {
  ready: number;
  restarts: number;
  lastRestart: string;
  status: string;
}

function later(a: string, b: string): string {
  return a === '' || (b !== '' && Date.parse(b) > Date.parse(a)) ? b : a;
}

function summarize(pod: JsonObject): Summary {
  const status = objectAt(pod, 'status');
  const sidecars = new Set(
    objectsAt(pod, 'spec', 'initContainers')
      .filter((container) => textAt(container, 'restartPolicy') === 'Always')
      .map((container) => textAt(container, 'name')),
  );
  const init = initTally(pod, sidecars);
  const total = objectsAt(pod, 'spec', 'containers').length + sidecars.size;
  let tally = init.all;
  if (init.status === undefined || conditionIs(status, 'Initialized', 'True')) {
    tally = mainTally(status, { ...init.sidecars, status: init.status ?? startStatus(status) });
  } else tally.status = init.status;
  return {
    ready: tally.ready,
    total,
    status: deletionStatus(pod) ?? tally.status,
    restarts: tally.restarts,
    lastRestart: tally.lastRestart,
  };
}

function startStatus(status: JsonObject): string {
  const gated = objectsAt(status, 'conditions').some(
    (condition) =>
      textAt(condition, 'type') === 'PodScheduled' && textAt(condition, 'reason') === 'SchedulingGated',
  );
  return gated ? 'SchedulingGated' : textAt(status, 'reason') || textAt(status, 'phase');
}

interface InitTally {
  readonly all: Tally;
  readonly sidecars: Tally;
  /** The reason why the pod waits; `undefined` when all init containers are done. */
  readonly status: string | undefined;
}

function initTally(pod: JsonObject, sidecars: ReadonlySet<string>): InitTally {
  const status = objectAt(pod, 'status');
  const all: Tally = { ready: 0, restarts: 0, lastRestart: '', status: startStatus(status) };
  const kept: Tally = { ready: 0, restarts: 0, lastRestart: '', status: '' };
  let waiting: string | undefined;
  for (const [index, container] of objectsAt(status, 'initContainerStatuses').entries()) {
    const sidecar = sidecars.has(textAt(container, 'name'));
    for (const tally of sidecar ? [all, kept] : [all]) countRestarts(tally, container);
    if (terminated(container) && numberAt(container, 'state', 'terminated', 'exitCode') === 0) continue;
    if (sidecar && valueAt(container, 'started') === true) {
      if (valueAt(container, 'ready') === true) {
        all.ready++;
        kept.ready++;
      }
      continue;
    }
    waiting = initStatus(container, index, objectsAt(pod, 'spec', 'initContainers').length);
    break;
  }
  return { all, sidecars: kept, status: waiting };
}

function initStatus(container: JsonObject, index: number, count: number): string {
  if (terminated(container)) return `Init:${endOf(container)}`;
  const reason = textAt(container, 'state', 'waiting', 'reason');
  return reason === '' || reason === 'PodInitializing' ? `Init:${index}/${count}` : `Init:${reason}`;
}

function terminated(container: JsonObject): boolean {
  return valueAt(container, 'state', 'terminated') !== undefined;
}

function endOf(container: JsonObject): string {
  const end = objectAt(container, 'state', 'terminated');
  const signal = numberAt(end, 'signal') ?? 0;
  return (
    textAt(end, 'reason') ||
    (signal === 0 ? `ExitCode:${numberAt(end, 'exitCode') ?? 0}` : `Signal:${signal}`)
  );
}

function countRestarts(tally: Tally, container: JsonObject): void {
  tally.restarts += numberAt(container, 'restartCount') ?? 0;
  tally.lastRestart = later(tally.lastRestart, textAt(container, 'lastState', 'terminated', 'finishedAt'));
}

function mainTally(status: JsonObject, tally: Tally): Tally {
  let running = false;
  for (const container of objectsAt(status, 'containerStatuses').toReversed()) {
    countRestarts(tally, container);
    const waiting = textAt(container, 'state', 'waiting', 'reason');
    if (waiting !== '') tally.status = waiting;
    else if (terminated(container)) tally.status = endOf(container);
    else if (valueAt(container, 'ready') === true && valueAt(container, 'state', 'running') !== undefined) {
      running = true;
      tally.ready++;
    }
  }
  if (tally.status === 'Completed' && running) {
    tally.status = conditionIs(status, 'Ready', 'True') ? 'Running' : 'NotReady';
  }
  return tally;
}

function deletionStatus(pod: JsonObject): string | undefined {
  if (textAt(pod, 'metadata', 'deletionTimestamp') === '') return undefined;
  if (textAt(pod, 'status', 'reason') === 'NodeLost') return 'Unknown';
  const phase = textAt(pod, 'status', 'phase');
  return phase === 'Succeeded' || phase === 'Failed' ? undefined : 'Terminating';
}

function conditionIs(status: JsonObject, type: string, value: string): boolean {
  return objectsAt(status, 'conditions').some(
    (condition) => textAt(condition, 'type') === type && textAt(condition, 'status') === value,
  );
}

function readinessGates(pod: JsonObject): string {
  const gates = objectsAt(pod, 'spec', 'readinessGates');
  if (gates.length === 0) return '<none>';
  const status = objectAt(pod, 'status');
  const open = gates.filter((gate) => conditionIs(status, textAt(gate, 'conditionType'), 'True'));
  return `${open.length}/${gates.length}`;
}

export const podColumns: readonly Column[] = [
  nameColumn,
  column('Ready', 'Number of ready containers and of all containers.', (pod) => {
    const { ready, total } = summaryOf(pod);
    return `${ready}/${total}`;
  }),
  column('Status', 'State of the pod, in one word.', (pod) => summaryOf(pod).status),
  column('Restarts', 'Number of container restarts, and when the last one was.', (pod, now) => {
    const { restarts, lastRestart } = summaryOf(pod);
    return restarts === 0 || lastRestart === ''
      ? String(restarts)
      : `${restarts} (${since(lastRestart, now)} ago)`;
  }),
  ageColumn,
  column(
    'IP',
    'Address of the pod.',
    (pod) => textAt(objectsAt(pod, 'status', 'podIPs')[0], 'ip') || '<none>',
    { wide: true },
  ),
  column('Node', 'Node on which the pod runs.', (pod) => textAt(pod, 'spec', 'nodeName') || '<none>', {
    wide: true,
  }),
  column(
    'Nominated Node',
    'Node on which the pod will run after preemption.',
    (pod) => textAt(pod, 'status', 'nominatedNodeName') || '<none>',
    { wide: true },
  ),
  column('Readiness Gates', 'Number of readiness gates that are true, and of all.', readinessGates, {
    wide: true,
  }),
];
