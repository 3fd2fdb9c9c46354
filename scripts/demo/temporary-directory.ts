import { chmodSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A directory that every user may search, gone at the end. */
export class TemporaryDirectory implements Disposable {
  readonly path: string;

  constructor() {
    this.path = realpathSync(mkdtempSync(join(tmpdir(), 'rampart-demo-')));
    chmodSync(this.path, 0o755);
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true, force: true });
  }
}
