/** What configurations include, from a directory that is a node: links, FIFOs, devices. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';

import { convertAideConf } from './convert.ts';
import { readAideConf } from './evaluate.ts';
import { nodeEnvironment } from './conf-environment.ts';

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

test('the name of a node, with comments as in hostname(5)', () => {
  using node = new Node();
  node.write('etc/hostname', '# of the template\n\nnode-8.example.org\n');
  assert.equal(node.hostname, 'node-8');
  assert.deepEqual(node.patterns('@@if hostname node-8\n/a p\n@@endif'), ['/hostroot/a']);
});

test('nobody waits for a FIFO or a device', () => {
  using node = new Node();
  node.fifo('etc/aide.d/a.conf');
  node.fifo('etc/hostname');
  node.write('etc/aide.d/b.conf', '/b p\n');
  assert.deepEqual(node.patterns('@@include /etc/aide.d \\.conf$'), ['/hostroot/b']);
  assert.notEqual(node.hostname, '');
  const { readFile } = nodeEnvironment({ directory: '/', prefix: '/hostroot' });
  assert.throws(() => readFile('/hostroot/dev/zero'), /not a regular file/);
});
