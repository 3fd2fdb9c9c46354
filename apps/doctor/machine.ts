/** This machine's state for the requirements of all guards and of standalone. */
import { existsSync, readFileSync, statfsSync } from 'node:fs';
import { dirname, resolve } from 'node:path';

import type { Machine } from '../../guard/machine.ts';
import { openCri } from '../../lib/cri/cri.ts';
import { probeFeatures } from '../../lib/ebpf/features/features.ts';
import { messageOf } from '../../lib/errors/errors.ts';
import { defaultListen } from '../apiserver/listen-address.ts';
import { isListening } from './listening.ts';

const ANSWER_MS = 3_000;

export interface MachineFacts extends Machine {
  /** Such as `containerd 1.6.20 at /run/containerd/containerd.sock`; undefined without a runtime. */
  readonly runtime: string | undefined;
  /** The default address of standalone's API, and why standalone could not listen there; `problem` is undefined if it could. */
  readonly api: { readonly address: string; readonly problem: string | undefined };
}

interface Place {
  readonly dataDirectory: string;
  readonly criSocket: string | undefined;
  readonly signal: AbortSignal;
}

export async function readMachine({ dataDirectory, criSocket, signal }: Place): Promise<MachineFacts> {
  const runtime = await runtimeOf(criSocket, signal);
  return {
    kernel: probeFeatures(),
    isRoot: process.geteuid?.() === 0,
    ...runtime,
    api: apiOf(defaultListen),
    dataDirectory,
    freeBytes: freeBytesOf(dataDirectory),
    inotify: inotifyLimits(),
    signal,
  };
}

async function runtimeOf(
  socketPath: string | undefined,
  stop: AbortSignal,
): Promise<Pick<MachineFacts, 'noRuntime' | 'runtime'>> {
  const signal = AbortSignal.any([stop, AbortSignal.timeout(ANSWER_MS)]);
  try {
    using cri = openCri({ socketPath, signal });
    const { name, version } = await cri.version({ signal });
    return { runtime: `${name} ${version} at ${cri.socketPath}`, noRuntime: undefined };
  } catch (error) {
    stop.throwIfAborted();
    return { runtime: undefined, noRuntime: messageOf(error) };
  }
}

function apiOf(address: string): MachineFacts['api'] {
  const [host = '', port] = address.split(':');
  const isTaken = isListening(host, Number(port));
  return { address, problem: isTaken ? 'in use, as by a running `rampart standalone`' : undefined };
}

function freeBytesOf(directory: string): number {
  let there = resolve(directory);
  while (!existsSync(there)) there = dirname(there);
  const { bavail, bsize } = statfsSync(there);
  return bavail * bsize;
}

function inotifyLimits(): Machine['inotify'] {
  const read = (name: string): number =>
    Number(readFileSync(`/proc/sys/fs/inotify/max_user_${name}`, 'utf8'));
  try {
    return { watches: read('watches'), instances: read('instances') };
  } catch {
    return undefined;
  }
}
