/** The files of the page, as vite has built them. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { errorCodes, RampartError } from '../../lib/errors/errors.ts';

export interface PageFile {
  readonly type: string;
  readonly content: Buffer;
}

/** Keyed by the path of the request. */
export type PageFiles = ReadonlyMap<string, PageFile>;

const top = join(import.meta.dirname, '../..');
const names = {
  '/': ['index.html', 'text/html; charset=utf-8'],
  '/page.js': ['page.js', 'text/javascript; charset=utf-8'],
  '/page.css': ['page.css', 'text/css; charset=utf-8'],
} as const;

/**
 * A build contains the page. In a checkout, it is built on demand if its sources have changed since the last time.
 *
 * @throws {RampartError} `SYSTEM` if it cannot be built, or is missing.
 */
export function readPageFiles(): PageFiles {
  const isCheckout = import.meta.filename.endsWith('.ts');
  if (isCheckout) buildPage();
  const directory = join(top, isCheckout ? '.cache/ui' : 'ui');
  try {
    return new Map(
      Object.entries(names).map(([path, [name, type]]) => [
        path,
        { type, content: readFileSync(join(directory, name)) },
      ]),
    );
  } catch (cause) {
    throw new RampartError(errorCodes.SYSTEM, {
      what: 'the page is missing',
      why: cause instanceof Error ? cause.message : String(cause),
      next: 'Install Rampart again',
      cause,
    });
  }
}

function buildPage(): void {
  const { status, stderr, error } = spawnSync(process.execPath, [join(top, 'scripts/build-page.ts')], {
    encoding: 'utf8',
  });
  if (status === 0) return;
  throw new RampartError(errorCodes.SYSTEM, {
    what: 'cannot build the page',
    why: error?.message ?? 'scripts/build-page.ts has failed',
    next: 'Run scripts/setup, which installs what it is built with',
    detail: stderr?.trim() ?? '',
  });
}
