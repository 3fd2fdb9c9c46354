/** A directory that is "the host", and a job for it. */
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { secretKey } from '../database/baseline.fixture.ts';
import type { IntegrityJob, RunOptions } from '../provider/provider.ts';

export class TestHost implements Disposable {
  readonly #path = mkdtempSync(join(tmpdir(), 'rampart-aide-'));
  readonly root: string;
  readonly directory = join(this.#path, 'job');

  /** @param name of the directory; one with what expressions take for special is worth a test */
  constructor(name = 'host') {
    this.root = join(this.#path, name);
    mkdirSync(this.root);
    mkdirSync(this.directory, { mode: 0o700 });
  }

  /** Beside the host and the job. */
  beside(name: string): string {
    return join(this.#path, name);
  }

  at(path: string): string {
    return join(this.root, path);
  }

  write(path: string, text: string): void {
    mkdirSync(dirname(this.at(path)), { recursive: true });
    writeFileSync(this.at(path), text);
  }

  /** A program of a few lines of sh. */
  script(name: string, text: string): string {
    const path = this.beside(name);
    writeFileSync(path, `#!/bin/sh\n${text}\n`);
    chmodSync(path, 0o755);
    return path;
  }

  job(text: string, change: Partial<IntegrityJob> = {}): IntegrityJob {
    return {
      key: 'guard/example',
      conf: { name: 'ConfigMap guard/example, aide.conf', text },
      root: { directory: this.root, prefix: '/hostroot' },
      directory: this.directory,
      signingKey: secretKey,
      maxBackups: 2,
      ...change,
    };
  }

  [Symbol.dispose](): void {
    rmSync(this.#path, { recursive: true, force: true });
  }
}

export function patience(): RunOptions {
  return { signal: AbortSignal.timeout(60_000) };
}
