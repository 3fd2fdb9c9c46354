import { sleep, systemClock } from '../../lib/time/clock.ts';
import type { Cri } from '../../lib/cri/cri.ts';
import type { NodeContainer } from '../../lib/cri/node-container.ts';
import type { MachineContainer, MachinePod, MachineState } from './mirror/machine-pod.ts';
import type { NodeRuntime } from '../../lib/cri/node-runtime.ts';

/** Start and end of a container. Queried only for containers that have ended, because lists do not contain these values. */
interface Ending {
  readonly startedMs: number;
  readonly finishedMs: number;
  readonly exitCode: number | undefined;
}

const ASK_MS = 2_000;
/** How often the runtime is asked how a container ended; a busy runtime answers late. */
const TRIES = 5;
const PAUSE_MS = 500;
/** While containers keep ending, the known state is reported after this time, without waiting for their exit codes. */
const PATIENCE_MS = 1_000;

/** Calls `notify` with the state of the machine, immediately and after each change, until the result is disposed. */
export function followMachinePods(source: NodeRuntime, notify: (state: MachineState) => void): Disposable {
  /** How each container ended, or that the runtime is being asked; keyed by container id. */
  const endings = new Map<string, Ending | 'asking'>();
  let waitingSinceMs: number | undefined;
  const stop = new AbortController();

  function changed(): void {
    const { state } = source;
    if ('unavailable' in state) {
      notify(state);
      return;
    }
    const { cri, name, version } = state;
    const containers = [...state.containers];
    const ids = new Set(containers.map(({ id }) => id));
    for (const id of endings.keys()) if (!ids.has(id)) endings.delete(id);
    for (const { id, state: is } of containers) {
      if (is === 'exited' && !endings.has(id)) void ask(cri, id);
    }
    // Waits for the exit codes, which decide the status; the answers take milliseconds.
    const now = performance.now();
    waitingSinceMs = [...endings.values()].includes('asking') ? (waitingSinceMs ?? now) : undefined;
    if (waitingSinceMs !== undefined && now - waitingSinceMs < PATIENCE_MS) return;
    const pods = Map.groupBy(containers, ({ pod }) => pod.id);
    notify({
      runtimeVersion: `${name}://${version}`,
      pods: [...pods.values()].map((ofPod) => podOf(ofPod, name)),
    });
  }

  async function ask(cri: Cri, id: string): Promise<void> {
    endings.set(id, 'asking');
    // If the runtime does not answer, it stays unknown how the container ended.
    let ending: Ending = { startedMs: 0, finishedMs: 0, exitCode: undefined };
    for (let tried = 1; tried <= TRIES; tried++) {
      try {
        const { status } = await cri.call('ContainerStatus', { containerId: id }, { timeoutMs: ASK_MS });
        if (status !== undefined) {
          const { startedAt, finishedAt, exitCode } = status;
          ending = { startedMs: ms(startedAt), finishedMs: ms(finishedAt), exitCode };
        }
        break;
      } catch {
        await sleep(systemClock, PAUSE_MS, stop.signal).catch(() => undefined);
        // The container has been removed meanwhile.
        if (stop.signal.aborted || !endings.has(id)) return;
      }
    }
    endings.set(id, ending);
    changed();
  }

  function podOf(containers: readonly NodeContainer[], runtime: string): MachinePod {
    const [first] = containers;
    if (first === undefined) throw new TypeError('pod without containers');
    const { pod } = first;
    return {
      sandboxId: pod.id,
      uid: pod.uid,
      name: pod.name,
      namespace: pod.namespace,
      labels: pod.labels,
      annotations: pod.annotations,
      createdMs: pod.createdAtMs,
      ready: pod.state === 'ready',
      ips: pod.ips,
      hostNetwork: pod.hostNetwork,
      isAsked: containers.some(({ id }) => endings.get(id) === 'asking'),
      containers: containers.map((one) => containerOf(one, runtime)),
    };
  }

  function containerOf(one: NodeContainer, runtime: string): MachineContainer {
    const ending = endings.get(one.id);
    const known = ending === 'asking' ? undefined : ending;
    return {
      id: `${runtime}://${one.id}`,
      name: one.name,
      image: one.image,
      imageId: '',
      state: one.state,
      attempt: one.attempt,
      createdMs: one.createdAtMs,
      startedMs: known?.startedMs ?? 0,
      finishedMs: known?.finishedMs ?? 0,
      exitCode: known?.exitCode,
      reason: '',
      message: '',
    };
  }

  changed();
  const following = source.onState(changed);
  return {
    [Symbol.dispose]: () => {
      stop.abort();
      following[Symbol.dispose]();
    },
  };
}

function ms(nanoseconds: bigint): number {
  return Number(nanoseconds / 1_000_000n);
}
