// The image that `npm run image` makes, in the pods of deploy/.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { suite, test } from 'node:test';

import manifest from '../../../package.json' with { type: 'json' };
import { writeImage } from '../../../scripts/release/image.ts';
import { seed } from '../../../lib/testing/depth.fixture.ts';
import { labObstacle } from '../obstacle.ts';
import { TemporaryDirectory } from '../../../lib/testing/temporary-directory.fixture.ts';
import { Deployed } from './deployed.fixture.ts';

/** Two images at most, of some 100 s of CPU time each, beside all other deep tests. */
const timeout = 1_500_000;

suite('the image', { skip: labObstacle() ?? false, timeout }, () => {
  test('the agent and the operator of deploy/ run from it, and say what this node can do; made again, it is the same', async () => {
    using directory = new TemporaryDirectory();
    const first = writeImage(directory.at('a'), { level: 1 });
    if (seed % 2 === 0) {
      const second = writeImage(directory.at('b'), { level: 1 });
      assert.equal(first.digest, second.digest);
      assert.ok(readFileSync(first.archive).equals(readFileSync(second.archive)));
    }

    await using deployed = await Deployed.start(undefined, first.archive);
    // As systemd has it on a node.
    await deployed.onNode('mount -t bpf bpf /sys/fs/bpf');
    await using operator = await deployed.runWorkload('rampart-operator');
    await using agent = await deployed.runWorkload('rampart-agent');
    for (const pod of [operator, agent])
      await pod.until('its probes', async () => await deployed.probe(pod).catch(() => undefined));
    const of = { name: 'plain', image: `rampart:${manifest.version}`, command: ['sleep', '600'] };
    const plain = await deployed.lab.runPod({ name: 'plain', containers: [of] });
    const status = readFileSync(`/proc/${plain.containers.get('plain')?.pid}/status`, 'utf8');
    assert.match(status, /^Uid:\s+65532\s+65532\s/m);
    for (const program of [
      ['aide', '--version'],
      ['iptables', '--version'],
      ['ipset', 'version'],
    ]) {
      const { exitCode, stderr } = await deployed.lab.exec(agent.container, program);
      assert.equal(exitCode, 0, `${program.join(' ')}: ${stderr}`);
    }
    const { stdout } = await agent.rampart('--version');
    assert.equal(stdout.trim(), manifest.version);
    const doctor = await agent.rampart('doctor');
    assert.equal(doctor.exitCode, 0, doctor.stdout + doctor.stderr);
    const help = await agent.rampart('agent', '--help');
    assert.equal(help.exitCode, 0, help.stderr);
  });
});
