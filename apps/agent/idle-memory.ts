/**
 * Gives memory that a busy time has left back to the kernel.
 *
 * A process that follows much and does little holds what its start or a burst took for as long as nothing happens: V8
 * collects garbage when something is allocated, and malloc keeps what was freed. See docs/decisions/0008-memory-of-the-agent.md.
 */
import { setFlagsFromString } from 'node:v8';

import { libc } from '../../lib/ebpf/ffi.ts';

interface IdleMemoryOptions {
  /** How often to check for a pause. */
  readonly checkMs?: number;
  /** Releases what is of use in busy times only, before memory is given back. */
  readonly letGo?: () => void;
  /**
   * How much the heap may grow from then on before V8 marks it again. Only for processes that are started without `--heap-growing-percent`.
   * Default: as V8 decides, which is a tenth after such a collection. With the heap of a large cluster, that is after 150 events of pods, and
   * marking takes 65 ms of the next few.
   */
  readonly growthPercent?: number;
}

/** A time with less of one CPU than this is a pause. */
const IDLE_SHARE = 0.02;
/** Handles that `letGo` closes are gone some turns of the event loop later, and their memory with them. */
const CLOSING_MS = 100;

/** Blocks for some 50 ms with a heap of 25 MiB. Collects garbage only under `node --expose-gc`. */
function returnMemory(growthPercent: number | undefined): void {
  if (growthPercent !== undefined) setFlagsFromString(`--heap-growing-percent=${growthPercent}`);
  // 'last-resort' also releases the pages that V8 keeps for later, and compiled code that is not in use.
  globalThis.gc?.({ type: 'major', execution: 'sync', flavor: 'last-resort' });
  // V8 has used it by now. With other flags than at the start, it would reject compiled code that Node.js has cached.
  if (growthPercent !== undefined) setFlagsFromString('--heap-growing-percent=0');
  libc.mallocTrim(0);
}

/** Calls {@link returnMemory} in the first pause after each busy time, the start being one. Dispose it to end that. */
export function returnMemoryWhenIdle(options: IdleMemoryOptions = {}): Disposable {
  const { checkMs = 5000, letGo, growthPercent } = options;
  let before = cpuMs();
  let busy = true;
  let closing: NodeJS.Timeout | undefined;
  const giveBack = (): void => {
    returnMemory(growthPercent);
    // The CPU time of the collection itself does not count as use.
    before = cpuMs();
  };
  const timer = setInterval(() => {
    const usedMs = cpuMs() - before;
    if (usedMs > checkMs * IDLE_SHARE) busy = true;
    else if (busy) {
      busy = false;
      letGo?.();
      closing = setTimeout(giveBack, CLOSING_MS).unref();
    }
    before = cpuMs();
  }, checkMs);
  timer.unref();
  return {
    [Symbol.dispose]: () => {
      clearInterval(timer);
      clearTimeout(closing);
    },
  };
}

/** CPU time of all threads. */
function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}
