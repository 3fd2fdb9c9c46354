import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';

import { guards } from '../apps/guards.ts';
import { programOf } from '../apps/program.ts';
import { commandsOf } from '../lib/cli/command-tree.ts';
import { manualPage } from './man.ts';

const missing = spawnSync('groff', ['--version']).status === 0 ? false : 'needs groff: scripts/setup test';

test(
  'the manual page is one that groff has nothing to say about, with every command',
  { skip: missing },
  () => {
    const program = programOf(guards);
    const page = manualPage(program, '1.2.3', new Date(0));
    assert.equal(page, manualPage(programOf(guards), '1.2.3', new Date(0)));
    const { status, stdout, stderr } = spawnSync('groff', ['-ww', '-man', '-Tutf8', '-P-cbou', '-rLL=100n'], {
      input: page,
      encoding: 'utf8',
    });
    assert.deepEqual({ status, stderr }, { status: 0, stderr: '' });
    assert.match(stdout, /^RAMPART\(1\) +User Commands +RAMPART\(1\)$/m);
    assert.match(stdout, /rampart 1\.2\.3 +1970-01-01/);
    for (const [name] of commandsOf(program)) {
      const words = name.slice('rampart'.length).trim();
      if (words !== '') assert.match(stdout, new RegExp(`^ +${words} \\[options\\]|^ +${words} `, 'm'), name);
    }
    assert.match(stdout, /^ +-o, --output <format>$/m);
    assert.match(stdout, /^ +rampart version -o json$/m);
  },
);
