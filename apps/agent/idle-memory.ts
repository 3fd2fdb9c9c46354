/**
 * Returns memory to the kernel after a busy period.
 *
 * A process that watches much and does little would keep the memory that its start or a burst took: V8 collects garbage only when something
 * is allocated, and malloc keeps what was freed. See docs/decisions/0008-memory-of-the-agent.md.
 */
import { setFlagsFromString } from 'node:v8';

import { libc } from '../../lib/ebpf/ffi.ts';

interface IdleMemoryOptions {
  /** How often to check for a pause. */
  readonly checkMs?: number;
  /** Called before memory is returned: releases what only a busy period needs. */
  readonly letGo?: () => void;
  /**
   * How much the heap may grow after the collection before V8 marks it again, in percent. Only for processes that are started without
   * `--heap-growing-percent`. Default: V8 decides, which is 10 % after such a collection. With the heap of a large cluster, that is after
   * 150 pod events, and marking takes 65 ms of the next few.
   */
  readonly growthPercent?: number;
}

/** A period in which less than this share of one CPU is used is a pause. */
const IDLE_SHARE = 0.02;
/** Handles that `letGo` closes, and their memory, are gone only a few turns of the event loop later. */
const CLOSING_MS = 100;

/** Blocks for some 50 ms with a heap of 25 MiB. Collects garbage only under `node --expose-gc`. */
function returnMemory(growthPercent: number | undefined): void {
  if (growthPercent !== undefined) setFlagsFromString(`--heap-growing-percent=${growthPercent}`);
  // 'last-resort' also releases the pages that V8 keeps for later, and compiled code that is not in use.
  globalThis.gc?.({ type: 'major', execution: 'sync', flavor: 'last-resort' });
  // V8 has applied the flag by now. If flags stayed different from those at the start, V8 would reject the compiled code that Node.js has
  // cached.
  if (growthPercent !== undefined) setFlagsFromString('--heap-growing-percent=0');
  libc.mallocTrim(0);
}

/** Calls {@link returnMemory} in the first pause after each busy period; the start of the process is one. Dispose of the result to stop. */
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
