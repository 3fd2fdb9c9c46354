/** Alerts of a test, held in a directory. */
import { GivenContainers } from '../../../lib/cri/containers.fixture.ts';
import { ContainerIndex } from '../../../lib/cri/container-index.ts';
import type { Spool } from '../../../lib/spool/spool.ts';
import { createLogger } from '../../../lib/telemetry/log.ts';
import { access, context } from '../alert/alert.fixture.ts';
import { AlertEncoder, type KiveAlert } from '../alert/alert.ts';
import { accessorOf } from './accessor.ts';
import { HeldAlerts, openHeldAlerts } from './held-alerts.ts';

export interface ReportedAlert {
  readonly alert: KiveAlert;
  readonly callback: string;
  readonly id: string;
  readonly secret: string | undefined;
}

export class HeldBench implements AsyncDisposable {
  readonly reported: ReportedAlert[] = [];
  readonly counts = { unknownAccessors: 0 };
  readonly spool: Spool;
  readonly held: HeldAlerts;
  readonly #containers = new GivenContainers();
  readonly #index = new ContainerIndex(1, accessorOf);
  readonly #encoder = new AlertEncoder(context);

  constructor(directory: string, waitMs: number) {
    this.spool = openHeldAlerts(directory, createLogger({ level: 'silent' }));
    this.held = new HeldAlerts({
      ...{ spool: this.spool, index: this.#index, containers: this.#containers, waitMs, counts: this.counts },
      path: {
        alert: (line, callback, id, _access, { callbackSecret: secret }) =>
          void this.reported.push({ alert: JSON.parse(line) as KiveAlert, callback, id, secret }),
        batchEnd: () => undefined,
      },
    });
  }

  /** As the sensor does. */
  add(id: string, cgroup: string): void {
    const seen = { ...access, mountNamespace: 7, cgroup };
    const accessor = this.held.accessorOf(seen, context.pod.container.id);
    const planned = {
      name: 'd',
      identity: { inode: 1n, device: 1, generation: 0 },
      context,
      callbackSecret: 'a/b',
    };
    const line = this.#encoder.encode(seen, accessor);
    this.held.alert(line, 'http://127.0.0.1/', id, seen, planned, accessor);
  }

  notify(name: string, id: string): void {
    const names = { id: `containerd://${id}`, name, podName: `${name}-0`, podNamespace: 'shop' };
    this.#index.set(names);
    this.#containers.set({ ...names, podUid: 'u', podIp: '', pid: 0, root: '' });
  }

  /** The reported accessors, in order. */
  get who(): string[] {
    return this.reported.map(({ id, alert: { accessor } }) => {
      const name = accessor?.container.name ?? '';
      return `${id} ${name === '' ? accessor?.relation : name}`;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.held[Symbol.dispose]();
    await this.spool[Symbol.asyncDispose]();
  }
}
