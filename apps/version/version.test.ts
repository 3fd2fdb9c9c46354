import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';

import manifest from '../../package.json' with { type: 'json' };
import { Commands } from '../commands.fixture.ts';
import type { VersionReport } from './run.ts';

const top = join(import.meta.dirname, '../..');

test('names the version, the commit and what it runs on', async () => {
  await using commands = new Commands();
  const json = await commands.run(['version', '-o', 'json']);
  assert.equal(json.code, 0, json.stderr);
  const { schema, ...report } = JSON.parse(json.stdout) as VersionReport & { readonly schema: string };
  assert.equal(schema, 'rampart.dev/version/v1');
  const { commit, changed, libbpf, ...rest } = report;
  assert.deepEqual(rest, {
    version: manifest.version,
    build: 'source',
    node: process.versions.node,
    platform: `linux/${process.arch}`,
  });
  if (existsSync(join(top, '.git'))) {
    const git = ['-c', `safe.directory=${top}`, 'rev-parse', 'HEAD'];
    const head = execFileSync('git', git, { cwd: top, encoding: 'utf8' });
    assert.deepEqual([commit, typeof changed], [head.trim(), 'boolean']);
  } else assert.deepEqual([commit, changed], [null, null]);
  assert.match(libbpf ?? '', /^1\.\d/);
  assert.deepEqual(parse((await commands.run(['version', '-o', 'yaml'])).stdout), { schema, ...report });
  const { stdout } = await commands.run(['version']);
  assert.match(stdout, new RegExp(`^rampart ${manifest.version} \\(linux/`));
});
