import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A fresh directory, removed at the end with everything in it. */
export class TemporaryDirectory implements Disposable {
  readonly path: string;

  constructor(prefix = 'rampart-test-') {
    this.path = mkdtempSync(join(tmpdir(), prefix));
  }

  at(...names: string[]): string {
    return join(this.path, ...names);
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true, force: true });
  }
}
