import assert from 'node:assert/strict';
import { test } from 'node:test';

import { TemporaryDirectory } from '../../lib/testing/temporary-directory.fixture.ts';
import { Terminal } from '../../lib/testing/terminal.fixture.ts';
import { rampart, Standalone } from './standalone.fixture.ts';

const skip = process.getuid?.() === 0 ? false : 'needs root';

test('stderr is JSON lines, also for what ends the process', { skip }, async () => {
  await using one = new Standalone();
  await one.start('--guards', 'policy-audit');
  const port = /127\.0\.0\.1:(\d+)/.exec(one.stderr)?.[1] ?? '';
  await using other = new Standalone();
  // A failure that may pass: systemd starts it again.
  const taken = ['--guards', 'policy-audit', '--listen', `127.0.0.1:${port}`];
  await assert.rejects(other.start(...taken), /exit code 1/);
  assert.equal(await one.stop(), 0);
  for (const { stderr } of [one, other]) {
    const lines = stderr.trimEnd().split('\n');
    for (const line of lines)
      assert.equal(typeof (JSON.parse(line) as { msg?: unknown }).msg, 'string', line);
  }
  assert.match(other.stderr, /"level":"fatal",.*"code":"RAMPART_IN_USE",.*in use.*\n$/);
});

test('on a terminal it is lines for people', { skip }, async () => {
  using directory = new TemporaryDirectory();
  const words = `standalone --guards policy-audit --data ${directory.at('data')} --listen 127.0.0.1:0`;
  await using terminal = new Terminal(`${rampart} ${words}`);
  await terminal.untilShown(/^rampart: kubeconfig \S+\s*$/m);
  await terminal.untilShown(/^rampart: serving https/m);
  assert.doesNotMatch(terminal.shown, /"level"/);
  terminal.type('\u0003');
  await terminal.untilShown(/rampart: stopped\s*$/);
});
