/**
 * Runs a command with Debian 13's AIDE 0.19 as the `aide` in PATH. Nothing is installed: AIDE and every library that it
 * needs lie in `.cache/debian`, and the dynamic loader of that libc starts it with these alone. Needs no root.
 *
 *     node test/file-integrity/aide-0.19.ts node --test guards/file-integrity/aide-provider/suite.test.ts
 */
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';

import { debianPackage } from '../../scripts/debian-packages.ts';
import { RampartError } from '../../lib/errors/errors.ts';
import { quote } from '../kernel/quote.ts';

const LIBRARIES = 'usr/lib/x86_64-linux-gnu';

/** Why it cannot run here. */
export function aide019Obstacle(): string | undefined {
  return process.platform === 'linux' && process.arch === 'x64'
    ? undefined
    : "Debian's AIDE 0.19 is fetched for x86_64 Linux";
}

/** A directory for the start of PATH, whose one program is `aide`. Whoever made it disposes of it. */
export class Aide019 implements Disposable {
  readonly directory = mkdtempSync(join(tmpdir(), 'rampart-aide-0.19-'));
  /** `0.19.1-2+deb13u2` */
  readonly packageVersion: string;

  private constructor(root: string, packageVersion: string) {
    this.packageVersion = packageVersion;
    const libraries = join(root, LIBRARIES);
    const command = [
      join(libraries, 'ld-linux-x86-64.so.2'),
      ...['--library-path', libraries, join(root, 'usr/bin/aide')],
    ];
    const path = join(this.directory, 'aide');
    writeFileSync(path, `#!/bin/sh\nexec ${command.map(quote).join(' ')} "$@"\n`);
    chmodSync(path, 0o755);
  }

  /** @throws {RampartError} as `debianPackage`, when it has to be fetched and cannot be */
  static async make(options: {
    readonly signal: AbortSignal;
    readonly onLine?: (line: string) => void;
  }): Promise<Aide019> {
    const { root, version } = await debianPackage('aide-0.19', options);
    return new Aide019(root, version);
  }

  /** Environment of a process that uses this `aide`: without it, the tests fail. */
  get env(): NodeJS.ProcessEnv {
    // Inside a test, the runner speaks another protocol to its children unless this variable is unset.
    const { NODE_TEST_CONTEXT: _, ...env } = process.env;
    return {
      ...env,
      PATH: `${this.directory}${delimiter}${env['PATH'] ?? ''}`,
      RAMPART_TEST_AIDE: '0.19',
    };
  }

  [Symbol.dispose](): void {
    rmSync(this.directory, { recursive: true, force: true });
  }
}

if (import.meta.main) {
  const [file, ...args] = process.argv.slice(2);
  try {
    using aide = await Aide019.make({
      signal: new AbortController().signal,
      onLine: (line) => process.stderr.write(`${line}\n`),
    });
    const run = spawnSync(file ?? 'aide', file === undefined ? ['--version'] : args, {
      stdio: 'inherit',
      env: aide.env,
    });
    process.exitCode = run.status ?? 1;
  } catch (error) {
    process.stderr.write(`${error instanceof RampartError ? error.message : String(error)}\n`);
    process.exitCode = 1;
  }
}
