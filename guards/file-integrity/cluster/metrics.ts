/** The operator's metrics, with the names that the File Integrity Operator uses: users have dashboards and alerts for them. */
import type { SharedMetrics } from '../../../lib/kube/controller/shared-metrics.ts';
import type { FileIntegrityNodeStatus, Phase, ScanResult } from '../api.ts';

const prefix = 'file_integrity_operator_';
/** Maximum number of reasons with a label of their own: agents write the reasons. Further ones, and malformed ones, are counted as `Other`. */
const MAX_ERRORS = 100;
const reasonWord = /^[A-Za-z_]{1,60}$/;

/** A counter for each set of label values. */
class Counter {
  readonly #labelNames: readonly string[];
  readonly #counts = new Map<string, { readonly labels: Record<string, string>; value: number }>();

  constructor(labelNames: readonly string[]) {
    this.#labelNames = labelNames;
  }

  add(...values: readonly string[]): void {
    const key = JSON.stringify(values);
    const found = this.#counts.get(key);
    if (found !== undefined) {
      found.value++;
      return;
    }
    const labels = Object.fromEntries(this.#labelNames.map((name, at) => [name, values[at] ?? '']));
    this.#counts.set(key, { labels, value: 1 });
  }

  /** Removes the counters with this label value, when its node is gone. */
  forget(name: string, value: string): void {
    for (const [key, { labels }] of this.#counts) if (labels[name] === value) this.#counts.delete(key);
  }

  read(): readonly { readonly labels: Record<string, string>; readonly value: number }[] {
    return [...this.#counts.values()];
  }
}

export class ClusterMetrics {
  readonly #phases = new Counter(['phase']);
  readonly #errors = new Counter(['error']);
  readonly #reinits = new Counter(['by', 'node']);
  readonly #transitions = new Counter(['condition', 'node']);
  readonly #nodeErrors = new Counter(['error', 'node']);
  readonly #pauses = new Counter(['node']);
  readonly #unpauses = new Counter(['node']);
  readonly #reasons = new Set<string>();
  /** Keyed by the API group and `namespace/name` of the FileIntegrityNodeStatus. */
  readonly #nodes = new Map<string, { readonly nodeName: string; readonly isFailed: boolean }>();

  /** @throws if the registry already has these metrics */
  register(metrics: SharedMetrics['metrics']): void {
    const counter = (name: string, help: string, labelNames: readonly string[], from: Counter): void =>
      metrics.counter({ name: `${prefix}${name}`, help, labelNames }, () => from.read());
    counter('phase_total', 'Transitions of a FileIntegrity to this phase.', ['phase'], this.#phases);
    counter('error_total', 'Errors of a FileIntegrity.', ['error'], this.#errors);
    counter('reinit_total', 'Requests for new baselines.', ['by', 'node'], this.#reinits);
    const both = ['condition', 'node'];
    counter('node_status_total', 'Transitions of a node to this condition.', both, this.#transitions);
    counter('node_status_error_total', 'Errors of nodes.', ['error', 'node'], this.#nodeErrors);
    counter('pause_total', 'Times the holdoff annotation was set.', ['node'], this.#pauses);
    counter('unpause_total', 'Times the holdoff annotation was removed.', ['node'], this.#unpauses);
    const failed = { name: `${prefix}node_failed`, help: '1 for a node whose files differ, 0 for others.' };
    metrics.gauge({ ...failed, labelNames: ['node'] }, () => this.failedNodes());
  }

  phase(phase: Phase): void {
    this.#phases.add(phase);
  }

  /** @param reason a fixed word, not free text */
  error(reason: string): void {
    this.#errors.add(reason);
  }

  reinit(by: string, node: string): void {
    this.#reinits.add(by, node);
  }

  paused(isPaused: boolean): void {
    (isPaused ? this.#pauses : this.#unpauses).add('');
  }

  /** @param reason of the condition `Errored` */
  transition(condition: ScanResult['condition'], nodeName: string, reason = ''): void {
    this.#transitions.add(condition, nodeName);
    if (condition === 'Errored') this.#nodeErrors.add(this.#known(reason), nodeName);
  }

  /** Reports the current FileIntegrityNodeStatus; undefined if it is gone. */
  node(key: string, now: Pick<FileIntegrityNodeStatus, 'nodeName' | 'results'> | undefined): void {
    const before = this.#nodes.get(key);
    // As in FIO, an error does not change what is known about the files.
    const known = now?.results.findLast(({ condition }) => condition !== 'Errored');
    if (now === undefined || known === undefined) this.#nodes.delete(key);
    else this.#nodes.set(key, { nodeName: now.nodeName, isFailed: known.condition === 'Failed' });
    if (now !== undefined || before === undefined) return;
    if ([...this.#nodes.values()].some(({ nodeName }) => nodeName === before.nodeName)) return;
    for (const counter of [this.#transitions, this.#nodeErrors, this.#reinits])
      counter.forget('node', before.nodeName);
  }

  /** Call at the start of a term as leader: all objects are read again. */
  forgetNodes(): void {
    this.#nodes.clear();
  }

  failedNodes(): readonly { readonly labels: { readonly node: string }; readonly value: number }[] {
    const values = new Map<string, number>();
    for (const { nodeName, isFailed } of this.#nodes.values()) {
      values.set(nodeName, Math.max(values.get(nodeName) ?? 0, isFailed ? 1 : 0));
    }
    return [...values].map(([node, value]) => ({ labels: { node }, value }));
  }

  #known(reason: string): string {
    const isFull = this.#reasons.size >= MAX_ERRORS && !this.#reasons.has(reason);
    if (isFull || !reasonWord.test(reason)) return 'Other';
    this.#reasons.add(reason);
    return reason;
  }
}
