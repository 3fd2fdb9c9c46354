// The agent and the operator as deploy/ has them: user, capabilities, profiles, mounts, rights, with every guard and with some by
// themselves. Each capability is taken away once.
import assert from 'node:assert/strict';
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import { overlay } from '../../../apps/agent/overlay.fixture.ts';
import { guards } from '../../../apps/guards.ts';
import { deepTest, isDeep, sampled, seed } from '../../../lib/testing/depth.fixture.ts';
import { iptablesObstacle } from '../../../guards/network-policy/dataplane/iptables/obstacle.fixture.ts';
import { sensorSkip } from '../../../lib/sensor/sensor.fixture.ts';
import { labObstacle } from '../obstacle.ts';
import type { DeployedPod } from './deployed.fixture.ts';
import { Stage } from './stage.fixture.ts';
import { plays } from './plays.fixture.ts';

const skip = labObstacle() ?? sensorSkip;
const timeout = 300_000;
/** All five at once show what each does. */
const sets = [guards, ...guards.map((guard) => [guard])];

/** Numbers of linux/capability.h. */
const capabilityNumbers: Readonly<Record<string, number>> = {
  DAC_READ_SEARCH: 2,
  NET_ADMIN: 12,
  SYS_PTRACE: 19,
  SYS_ADMIN: 21,
  PERFMON: 38,
  BPF: 39,
};

/** The kernel takes SYS_ADMIN in place of these (bpf_capable and perfmon_capable of include/linux/capability.h). */
const partsOfSysAdmin: ReadonlySet<string> = new Set(['BPF', 'PERFMON']);

/** As the kernel has it: proc_pid_status(5), proc_pid_mountinfo(5). */
function rightsOfProcess({ container: { pid } }: DeployedPod) {
  const text = readFileSync(`/proc/${pid}/status`, 'utf8');
  const value = (name: string): string => new RegExp(`^${name}:\\s+(\\S+)`, 'm').exec(text)?.[1] ?? '';
  const root = readFileSync(`/proc/${pid}/mountinfo`, 'utf8')
    .split('\n')
    .map((line) => line.split(' '))
    .find(([, , , , mountPoint]) => mountPoint === '/');
  return {
    user: value('Uid'),
    capabilities: ['CapPrm', 'CapEff', 'CapBnd'].map((name) => BigInt(`0x${value(name)}`)),
    noNewPrivileges: value('NoNewPrivs'),
    /** 2: a filter. */
    seccomp: value('Seccomp'),
    isRootReadOnly: root?.[5]?.split(',').includes('ro'),
  };
}

const backendPatch = `
patches:
  - target: { kind: DaemonSet, name: rampart-agent }
    patch: |-
      - op: add
        path: /spec/template/spec/containers/0/args/-
        value: --network-policy-backend=iptables
`;

suite(`deploy/ in a lab (RAMPART_TEST_SEED=${seed})`, { skip, timeout: 3 * timeout }, () => {
  for (const of of isDeep ? sets : [guards]) {
    const names = of.map(({ name }) => name);
    test(`guards with exactly what its manifests allow: ${names.join(', ')}`, { timeout }, async (t) => {
      using mine = overlay(of);
      await using stage = await Stage.start(mine.path);
      const { deployed } = stage;
      const { cluster, agentCapabilities } = deployed;
      const played = names.map((name) => {
        const play = plays[name];
        assert.ok(play, `what does ${name} do? A guard needs its play in stage.fixture.ts`);
        return play;
      });
      for (const { prepare } of played) await prepare(stage);
      const operator = await deployed.runWorkload('rampart-operator');

      await t.test('with all of it, everything is guarded', async () => {
        await using agent = await deployed.runWorkload('rampart-agent');
        const mask = agentCapabilities.reduce(
          (bits, name) => bits | (1n << BigInt(capabilityNumbers[name] ?? 63)),
          0n,
        );
        const confined = { noNewPrivileges: '1', seccomp: '2', isRootReadOnly: true };
        assert.deepEqual(rightsOfProcess(agent), {
          ...confined,
          user: '0',
          capabilities: [mask, mask, mask],
        });
        assert.deepEqual(rightsOfProcess(operator), {
          ...{ ...confined, user: '65532', capabilities: [0n, 0n, 0n] },
        });
        for (const one of [agent, operator]) {
          const answers = await one.until('to be alive and ready', () => deployed.probe(one));
          assert.match(answers.join(''), /ok\n[^]*ready\n$/);
        }
        const doctor = await agent.rampart('doctor');
        // One guard alone has not what the others need.
        if (of === guards) assert.equal(doctor.exitCode, 0, doctor.stdout);
        assert.match(doctor.stdout, /^file-access +(?:works|cannot)/);
        for (const { works } of played) await works(agent, stage);
      });

      // In the end, as it asks whether each is in the list above.
      for (const name of sampled(agentCapabilities, 1)) {
        if (partsOfSysAdmin.has(name) && agentCapabilities.includes('SYS_ADMIN')) continue;
        await t.test(`without ${name} it does not do all of its work, and says so`, async () => {
          await using agent = await deployed.runWorkload('rampart-agent', name);
          for (const { fails } of played) {
            const fault = fails[name];
            if (fault !== undefined)
              await agent.until(`what fails without ${name}`, () => fault(agent, stage));
          }
        });
      }
      for (const [at, { fails }] of played.entries()) {
        const capabilities = (of[at]?.pod?.capabilities ?? []).map((one) => one.name);
        assert.deepEqual(capabilities.toSorted(), Object.keys(fails).toSorted(), 'each has its reason');
      }
      assert.deepEqual(cluster.refused, []);
    });
  }

  deepTest(
    'legacy iptables on the nodes, by the component for it',
    { skip: iptablesObstacle('legacy') ?? false, timeout },
    async () => {
      using mine = overlay(guards.filter(({ name }) => name === 'network-policy'));
      const file = join(mine.path, 'kustomization.yaml');
      const components = '../rampart/deploy/guards/network-policy, ../rampart/deploy/network-policy-iptables';
      writeFileSync(
        file,
        readFileSync(file, 'utf8').replace('../rampart/deploy/guards/network-policy', components),
      );
      appendFileSync(file, backendPatch);
      await using stage = await Stage.start(mine.path);
      const { deployed } = stage;
      // Which makes it the one in use.
      await deployed.onNode('iptables-legacy -w -A FORWARD -j ACCEPT');
      await plays['network-policy']?.prepare(stage);
      await using agent = await deployed.runWorkload('rampart-agent');
      await agent.until('the rules', async () => {
        const rules = await deployed.onNode('iptables-legacy-save -t filter');
        return rules.includes('POD name:nginx-pod namespace: default') && rules.includes(stage.podIp);
      });
      assert.match(agent.lines('stderr').join('\n'), /programmed by iptables \(legacy\)/);
    },
  );
});
