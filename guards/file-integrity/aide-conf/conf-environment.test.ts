/** Includes of configurations, from a directory that plays the node: links, FIFOs, devices. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { suite, test } from 'node:test';

import { convertAideConf } from './convert.ts';
import { readAideConf, tryAideConf } from './evaluate.ts';
import { nodeEnvironment } from './conf-environment.ts';
import { describeProblem, ProblemList } from './source.ts';

class Node implements Disposable {
  readonly #path = mkdtempSync(join(tmpdir(), 'rampart-node-'));

  #at(path: string): string {
    const file = join(this.#path, path);
    mkdirSync(dirname(file), { recursive: true });
    return file;
  }

  write(path: string, text: string): void {
    writeFileSync(this.#at(path), text);
  }

  grow(path: string, sizeBytes: number): void {
    truncateSync(this.#at(path), sizeBytes);
  }

  link(path: string, target: string): void {
    symlinkSync(target, this.#at(path));
  }

  fifo(path: string): void {
    execFileSync('mkfifo', [this.#at(path)]);
  }

  /** The patterns of the rules that a configuration of the host has here. */
  patterns(text: string): string[] {
    const environment = nodeEnvironment({ directory: this.#path, prefix: '/hostroot' });
    const { rules } = readAideConf('c', convertAideConf('c', text).text, environment);
    return rules.map(({ pattern }) => pattern);
  }

  /** All that is said of a configuration that cannot be used here. */
  refusal(text: string): string {
    const environment = nodeEnvironment({ directory: this.#path, prefix: '/hostroot' });
    const problems = new ProblemList();
    // With the prefix at hand, so that also what the conversion would refuse is tried.
    const written = text.replaceAll(/(include |define D )\//g, '$1/hostroot/');
    tryAideConf('c', written, environment, problems);
    return problems.problems.map(describeProblem).join('\n');
  }

  get hostname(): string {
    return nodeEnvironment({ directory: this.#path, prefix: '/hostroot' }).hostname;
  }

  [Symbol.dispose](): void {
    rmSync(this.#path, { recursive: true, force: true });
  }
}

test('links lead where they do on the node', () => {
  using node = new Node();
  node.write('usr/share/aide/rules', '/from/share p\n');
  node.link('etc/aide.d/a.conf', '/usr/share/aide/rules');
  node.link('etc/rules.d', '/etc/aide.d');
  node.write('usr/lib/name', 'node-7.example.org\n');
  node.link('etc/hostname', '../../../../usr/lib/name');
  const included = ['/hostroot/from/share'];
  assert.deepEqual(node.patterns('@@include /etc/aide.d \\.conf$'), included);
  assert.deepEqual(node.patterns('@@include /etc/rules.d/a.conf'), included);
  assert.deepEqual(node.patterns('@@if exists /etc/rules.d/a.conf\n/yes p\n@@endif'), ['/hostroot/yes']);
  assert.equal(node.hostname, 'node-7');
});

test('a link that leads nowhere is an error, and not passed over with its rules', () => {
  using node = new Node();
  node.write('etc/aide.d/a.conf', '/a p\n');
  node.link('etc/aide.d/b.conf', '/gone');
  assert.throws(() => node.patterns('@@include /etc/aide.d \\.conf$'), /b\.conf.*\(ENOENT\)/);
  assert.deepEqual(node.patterns('@@include /etc/aide.d ^a'), ['/hostroot/a']);
  assert.deepEqual(node.patterns('@@if exists /etc/aide.d/b.conf\n/b p\n@@endif'), []);
});

test('a file of terabytes, which takes no space on the node, takes no memory here', () => {
  using node = new Node();
  node.write('etc/aide.d/a.conf', '/a p\n');
  node.write('etc/aide.d/b.conf', '');
  node.grow('etc/aide.d/b.conf', 8 * 1024 ** 4);
  const message = node.refusal('@@include /etc/aide.d conf$');
  assert.match(message, /b\.conf: the file is not read: it has more than 4194304 bytes/);
  node.write('etc/hostname', 'node-9\n');
  node.grow('etc/hostname', 8 * 1024 ** 4);
  assert.notEqual(node.hostname, 'node-9');
});

test('the name of a node, with comments as in hostname(5)', () => {
  using node = new Node();
  node.write('etc/hostname', '# of the template\n\nnode-8.example.org\n');
  assert.equal(node.hostname, 'node-8');
  assert.deepEqual(node.patterns('@@if hostname node-8\n/a p\n@@endif'), ['/hostroot/a']);
});

test('does not wait for a FIFO or a device', () => {
  using node = new Node();
  node.fifo('etc/aide.d/a.conf');
  node.fifo('etc/hostname');
  node.write('etc/aide.d/b.conf', '/b p\n');
  assert.deepEqual(node.patterns('@@include /etc/aide.d \\.conf$'), ['/hostroot/b']);
  assert.notEqual(node.hostname, '');
  assert.match(node.refusal('@@include /etc/aide.d/a.conf'), /not a regular file/);
});

suite('whoever writes a FileIntegrity does not read the files of the node', () => {
  const secret = 'root:$6$cGVwcGVy$hash:19000:0:99999:7:::\nTOKEN=hunter2 and more\n/hunter2[ p\n';
  const hidden = /hunter2|\$6\$/;

  test('only files of the configuration of AIDE are included, whatever leads to others', () => {
    using node = new Node();
    node.write('etc/shadow', secret);
    node.write('etc/aide.d/keep', '/kept p\n');
    node.link('etc/aide.d/away', '/etc/shadow');
    for (const text of [
      '@@include /etc/shadow',
      '@@include /etc ^shadow$',
      '@@include /etc/aide.d/../shadow',
      '@@include /etc/aide.d ..',
      '@@include /etc/aide.d ^away$',
      '@@include /proc/self/environ',
      '@@define D /etc\n@@include @@{D}/ ^shadow$ /x',
      '@@include /etc/aide.d-other/x',
    ]) {
      const message = node.refusal(text);
      assert.doesNotMatch(message, hidden, text);
      assert.match(message, /c:\d+:\d+: cannot read /, text);
    }
    assert.match(node.refusal('@@include /etc/shadow'), /only files of AIDE's configuration can be included/);
    assert.deepEqual(node.patterns('@@include /etc/aide.d/keep'), ['/hostroot/kept']);
  });

  test('messages about an included file have the place and kind of the fault, but no text of it', () => {
    using node = new Node();
    node.write('etc/aide.d/wrong', secret);
    const message = node.refusal('@@include /etc/aide.d/wrong');
    assert.doesNotMatch(message, hidden);
    assert.match(message, /\/etc\/aide\.d\/wrong:1:1: unknown option '\.\.\.'\. Correct the line/);
    // Definitions in such a file are its text as well.
    node.write('etc/aide.d/defines', '@@define X hunter2\n');
    for (const use of [
      '/a[@@{X}\\K p',
      '@@include /etc/aide.d x @@{X}',
      'database_in=@@{X}',
      '@@include /@@{X} .',
    ])
      assert.doesNotMatch(node.refusal(`@@include /etc/aide.d/defines\n${use}`), hidden, use);
    // Errors in the user's own text are reported with the text.
    assert.match(node.refusal('nosuch=x'), /unknown option 'nosuch' \(line 'nosuch=x'\)/);
  });
});
