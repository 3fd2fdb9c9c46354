/** What one FileIntegrity requests of this node: its spec, its configuration, and whether scans are held. */
import type { ConfigMap, Node } from '../../../lib/kube/object/object.ts';
import { type FileIntegrity, names, scheduleOf } from '../api.ts';
import { isHeldOn, type MachineConfig, machineConfigOf } from '../results/holdoff.ts';
import type { NodeRequest } from '../results/node-result.ts';

export class JobInputs {
  readonly #nodeName: string;
  readonly #onReleased: () => void;
  #integrity: FileIntegrity;
  #machineConfig: MachineConfig | undefined;
  #conf: string | undefined;
  #confVersion = 0;

  /** @param onReleased called when scans are no longer held: a scan then finds the changes that were made meanwhile */
  constructor(nodeName: string, integrity: FileIntegrity, onReleased: () => void = () => undefined) {
    this.#nodeName = nodeName;
    this.#integrity = integrity;
    this.#onReleased = onReleased;
  }

  get integrity(): FileIntegrity {
    return this.#integrity;
  }

  set integrity(integrity: FileIntegrity) {
    this.#changeHeld(() => (this.#integrity = integrity));
  }

  get spec(): FileIntegrity['spec'] {
    return this.#integrity.spec;
  }

  get schedule(): ReturnType<typeof scheduleOf> {
    return scheduleOf(this.spec);
  }

  /** The Node object; undefined if it does not exist. */
  set node(node: Node | undefined) {
    this.#changeHeld(() => (this.#machineConfig = machineConfigOf(node)));
  }

  /** The name of the node's configuration by the Machine Config Operator, if there is one. */
  get machineConfig(): string | undefined {
    return this.#machineConfig?.name;
  }

  /** The text of the active configuration; undefined if it does not exist. */
  get conf(): string | undefined {
    return this.#conf;
  }

  /** @returns whether the configuration has changed. */
  takeConfiguration(configMap: ConfigMap | undefined): boolean {
    const text = configMap?.data?.[names.confKey];
    if (text === this.#conf) return false;
    this.#conf = text;
    this.#confVersion++;
    return true;
  }

  get isHeld(): boolean {
    return isHeldOn(this.#integrity, this.#nodeName) || this.#machineConfig?.isUpdating === true;
  }

  /** Whether the Machine Config Operator has changed the node's configuration from this one to another. */
  isReconfiguredSince(machineConfig: string | undefined): boolean {
    const now = this.machineConfig;
    return machineConfig !== undefined && now !== undefined && now !== machineConfig;
  }

  /** Identifies the inputs of a step: if the stamp changes while the step runs, the step is outdated. */
  stampOf(kind: 'init' | 'accept' | 'check', requests: readonly NodeRequest[]): string {
    const parts = [this.spec.provider, this.#confVersion];
    if (kind !== 'check') return parts.join();
    const inits = requests.filter((request) => request.kind === 're-init');
    return [...parts, this.isHeld, ...inits.map(({ id }) => id)].join();
  }

  #changeHeld(change: () => void): void {
    const { isHeld } = this;
    change();
    if (isHeld && !this.isHeld) this.#onReleased();
  }
}
