import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, renameSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import { scaled } from '../testing/depth.fixture.ts';
import { TemporaryDirectory } from '../testing/temporary-directory.fixture.ts';
import { until } from '../testing/until.fixture.ts';

const room = join(import.meta.dirname, '..');
const program = `
  import { reopenOnHangup } from ${JSON.stringify(join(room, 'service/reopen.ts'))};
  import { LineWriter } from ${JSON.stringify(join(room, 'output/lines.ts'))};
  const reopening = reopenOnHangup((path, error) => console.error(path, error.code));
  const out = new LineWriter(1);
  let count = 0;
  const writing = setInterval(() => { for (let i = 0; i < 100; i++) out.write(String(count++)); }, 1);
  process.once('SIGTERM', async () => {
    clearInterval(writing);
    await out[Symbol.asyncDispose]();
    reopening[Symbol.dispose]();
  });
`;

const hasLines = (path: string): boolean => existsSync(path) && statSync(path).size > 0;

suite('SIGHUP', () => {
  test('opens the file of stdout anew; each line is in the renamed files or in the new one, once', async () => {
    using directory = new TemporaryDirectory();
    const path = directory.at('findings');
    await using running = new Running(path);
    const renamed: string[] = [];
    for (let time = 0; time < scaled(100); time++) {
      await until('something is written', () => hasLines(path));
      renamed.push(`${path}.${time}`);
      renameSync(path, `${path}.${time}`);
      running.hangUp();
      await until('the file is opened anew', () => existsSync(path));
    }
    await until('something is written', () => hasLines(path));
    assert.equal(await running.end(), 0);
    const all = [...renamed, path].flatMap((file) => {
      const text = readFileSync(file, 'utf8');
      assert.ok(text.endsWith('\n'), 'a line is not in two files');
      return text.trimEnd().split('\n').map(Number);
    });
    assert.deepEqual(all, [...all.keys()]);
  });

  test('output continues to the old file if the new one cannot be opened', async () => {
    using directory = new TemporaryDirectory();
    const folder = directory.at('log');
    mkdirSync(folder);
    const path = join(folder, 'findings');
    await using running = new Running(path);
    await until('something is written', () => hasLines(path));
    renameSync(folder, directory.at('moved'));
    running.hangUp();
    await until('the failure is reported', () => running.stderr.includes(`${path} ENOENT`));
    const moved = directory.at('moved', 'findings');
    const { size } = statSync(moved);
    await until('more is written', () => statSync(moved).size > size);
    assert.equal(await running.end(), 0);
  });
});

class Running implements AsyncDisposable {
  readonly #child;
  readonly #ended;
  stderr = '';

  constructor(stdout: string) {
    const fd = openSync(stdout, 'a', 0o640);
    this.#child = spawn(process.execPath, ['--input-type=module', '-e', program], {
      stdio: ['ignore', fd, 'pipe'],
    });
    closeSync(fd);
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => (this.stderr += text));
    this.#ended = once(this.#child, 'close');
  }

  hangUp(): void {
    this.#child.kill('SIGHUP');
  }

  /** @returns the exit code. */
  async end(signal: NodeJS.Signals = 'SIGTERM'): Promise<number | null> {
    this.#child.kill(signal);
    await this.#ended;
    return this.#child.exitCode;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end('SIGKILL');
  }
}
