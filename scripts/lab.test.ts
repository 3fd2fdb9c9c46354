import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { suite } from 'node:test';

import { deepTest } from '../lib/testing/depth.fixture.ts';
import { labObstacle } from '../test/lab/obstacle.ts';

suite('npm run lab', { skip: labObstacle() ?? false, timeout: 300_000 }, () => {
  deepTest('a shell on a node with pods, another one beside it, and nothing after them', async () => {
    const child = spawn(process.execPath, [join(import.meta.dirname, 'lab.ts')], {
      stdio: 'pipe',
      env: { ...process.env, SHELL: '/bin/sh' },
    });
    const exited = once(child, 'exit') as Promise<[number | null]>;
    const printed = Promise.all([text(child.stdout), text(child.stderr)]);
    // A command in a pod does not read the lines behind it.
    child.stdin.end(
      'in-pod db hostname\n"$(dirname "$(which in-pod)")"/enter ls /run/containerd/containerd.sock\npwd\nexit 4\n',
    );
    const [stdout, stderr] = await printed;
    assert.deepEqual(await exited, [4, null]);
    assert.equal(stdout, `db\n/run/containerd/containerd.sock\n${dirname(import.meta.dirname)}\n`);
    const [, enter = ''] = /^Another terminal on this node: (.*)$/m.exec(stderr) ?? assert.fail(stderr);
    assert.ok(!existsSync(dirname(dirname(enter))));
  });
});
