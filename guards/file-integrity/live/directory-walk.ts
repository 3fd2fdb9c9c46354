/** Walks the directories to watch, in short slices that do not block the event loop. */
import { lstatSync, type Dirent } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { setImmediate as nextTurn } from 'node:timers/promises';

import type { WatchOutcome } from '../../../lib/sensor/changes/change.ts';
import type { ByteString } from '../model/entry.ts';

/** Time limit of one slice. */
const turnMs = 5;

export interface DirectoryWalkOptions {
  /** The directory that paths are relative to. */
  readonly root: string;
  readonly wants: (path: ByteString) => boolean;
  /** Called before the directory is listed: later additions are reported as changes. */
  readonly watch: (path: ByteString) => WatchOutcome;
  /**
   * Called for what may have changed after `sinceMs`, in wall-clock time; for a directory: whether entries were added
   * or removed.
   */
  readonly changed: {
    readonly sinceMs: number;
    readonly selects: (path: ByteString) => boolean;
    readonly onFile: (path: ByteString) => void;
    readonly onDirectory: (path: ByteString) => void;
  };
  readonly signal: AbortSignal;
}

/** Resolves when all directories were visited. @throws the reason of the signal */
export async function walkDirectories(options: DirectoryWalkOptions): Promise<void> {
  const { root, wants, watch, changed, signal } = options;
  const within = Buffer.from(root === '/' ? '' : root, 'utf8').toString('latin1');
  const left: ByteString[] = wants('/') ? ['/'] : [];
  for (let path = left.pop(); path !== undefined; path = left.pop()) {
    signal.throwIfAborted();
    const outcome = watch(path);
    if (outcome === 'gone' || outcome === 'refused') continue;
    const above = path === '/' ? '/' : `${path}/`;
    const names = await list(within + path);
    let untilMs = performance.now() + turnMs;
    if (isLater(within + path, changed.sinceMs, 'mtimeMs')) changed.onDirectory(path);
    for (const entry of names) {
      if (performance.now() > untilMs) {
        await nextTurn();
        signal.throwIfAborted();
        untilMs = performance.now() + turnMs;
      }
      const below = above + entry.name;
      if (changed.selects(below) && isLater(within + below, changed.sinceMs, 'ctimeMs'))
        changed.onFile(below);
      if (entry.isDirectory() && wants(below)) left.push(below);
    }
  }
}

async function list(path: ByteString): Promise<readonly Dirent[]> {
  try {
    return await readdir(Buffer.from(path, 'latin1'), { encoding: 'latin1', withFileTypes: true });
  } catch {
    // The directory is gone, which its parent reports, or cannot be read, which scans report.
    return [];
  }
}

function isLater(path: ByteString, sinceMs: number, time: 'ctimeMs' | 'mtimeMs'): boolean {
  try {
    const stat = lstatSync(Buffer.from(path, 'latin1'), { throwIfNoEntry: false });
    return stat !== undefined && stat[time] >= sinceMs;
  } catch {
    return false;
  }
}
