import assert from 'node:assert/strict';
import { symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { FakeRuntime } from './runtime.fixture.ts';
import { findSocket, socketPathOf } from './socket.ts';

test('the first candidate that is a socket is taken', async () => {
  await using runtime = await new FakeRuntime().start({});
  const [absent, file] = ['absent', 'file'].map((name) => join(runtime.directory, name)) as [string, string];
  writeFileSync(file, '');
  assert.equal(findSocket([absent, file, runtime.socketPath]), runtime.socketPath);
  const link = join(runtime.directory, 'link');
  symlinkSync(runtime.socketPath, link);
  assert.equal(findSocket([file, link]), link);
  assert.throws(() => findSocket([absent, file]), {
    code: 'RAMPART_RUNTIME_UNREACHABLE',
    message: `no container runtime found: none of these is a socket: ${absent}, ${file}. Start containerd or CRI-O, or name the socket`,
  });
});

test('an endpoint is an absolute path, with or without unix://', () => {
  assert.equal(socketPathOf('unix:///run/x.sock'), '/run/x.sock');
  assert.equal(socketPathOf('/run/x.sock'), '/run/x.sock');
  for (const endpoint of ['', 'x.sock', 'tcp://127.0.0.1:1', 'unix://x.sock']) {
    assert.throws(() => socketPathOf(endpoint), { code: 'RAMPART_INPUT' });
  }
});
