/** A tree, a scanner of it, and what it saw. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { type AideConf, noEnvironment } from '../aide-conf/conf.ts';
import { readAideConf } from '../aide-conf/evaluate.ts';
import type { Batches } from '../model/batches.ts';
import type { Entry, ScanProblem } from '../model/entry.ts';
import { Scanner } from './scanner.ts';
import type { ThreadPoolOptions } from './thread-pool.ts';

export function confOf(text: string): AideConf {
  return readAideConf('aide.conf', text, noEnvironment);
}

/** A directory for a tree, removed with its scanner. */
export class Scene implements AsyncDisposable {
  readonly root: string;
  readonly scanner: Scanner;

  /** @param parent the directory that it is made in */
  constructor(options: Partial<ThreadPoolOptions> = {}, parent = tmpdir()) {
    this.root = mkdtempSync(join(parent, 'rampart-scan-'));
    this.scanner = new Scanner({ root: { directory: this.root, prefix: '' }, idleMs: 100, ...options });
  }

  scan(text: string, signal = new AbortController().signal): Promise<(Entry | ScanProblem)[]> {
    const [stream] = this.scanner.scan([confOf(text)], { signal });
    return all(stream ?? []);
  }

  path(name: string): string {
    return join(this.root, name);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.scanner[Symbol.asyncDispose]();
    rmSync(this.root, { recursive: true, force: true });
  }
}

export async function all<T>(batches: Batches<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const batch of batches) found.push(...batch);
  return found;
}

export function isProblem(item: Entry | ScanProblem): item is ScanProblem {
  return 'code' in item;
}

/** The paths in the order in which they came; of problems with their code. */
export function pathsOf(items: readonly (Entry | ScanProblem)[]): string[] {
  return items.map((item) => (isProblem(item) ? `${item.path} ${item.code}` : item.path));
}

export function isEntry(item: Entry | ScanProblem): item is Entry {
  return !isProblem(item);
}
