// The agent and the operator as deploy/ has them: user, capabilities, profiles, mounts, rights. Each capability is taken away once.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import { rightsOf } from '../../../apps/agent/deploy.fixture.ts';
import { configMaps, namespaces } from '../../../shared/kube/object.ts';
import { parseFinding } from '../../../systems/file-integrity/finding-line-kind.ts';
import { sensorSkip } from '../../../shared/sensor/sensor.fixture.ts';
import type { KiveAlert } from '../../../systems/file-access/alert.ts';
import { type KivePolicy, kivePolicyType } from '../../../systems/file-access/api.ts';
import { type FileIntegrity, released } from '../../../systems/file-integrity/api.ts';
import { labObstacle } from '../obstacle.ts';
import { Deployed, type DeployedPod } from './deployed.fixture.ts';

const skip = labObstacle() ?? sensorSkip;
const timeout = 300_000;

/** In a directory of another user, with mode 0700: not even root may search it without DAC_READ_SEARCH. */
const closedFile = '/closed/secret.txt';

/** Numbers of linux/capability.h. */
const capabilityNumbers: Readonly<Record<string, number>> = {
  DAC_READ_SEARCH: 2,
  SYS_PTRACE: 19,
  PERFMON: 38,
  BPF: 39,
};

/** What the agent says where a capability is missing: why each of the manifest's list is there. */
const failures: Readonly<Record<string, (agent: DeployedPod, stage: Stage) => Promise<boolean>>> = {
  BPF: async (agent) => said(agent, /guard of files does not run.*raw_tracepoint: .*needs CAP_BPF/),
  PERFMON: async (agent) => said(agent, /guard of files does not run.*raw_tracepoint: .*needs CAP_PERFMON/),
  SYS_PTRACE: async (_, stage) => /EACCES.*\/ns\/mnt.*CAP_SYS_PTRACE/.test(await stage.problemOf('open')),
  DAC_READ_SEARCH: async (agent, stage) =>
    /cannot follow \/closed\/secret.txt .*EACCES/.test(await stage.problemOf('closed')) &&
    // Of mode 0000, as some distributions have it.
    said(agent, /could not be read/) &&
    said(agent, /etc\/shadow: EACCES/),
};

function said(agent: DeployedPod, what: RegExp): boolean {
  return agent.lines('stderr').some((line) => what.test(line));
}

/** A node with something to guard, and what is to be guarded of it. */
class Stage implements AsyncDisposable {
  readonly deployed: Deployed;
  /** On the node, which the agent has below /hostroot. */
  readonly files = mkdtempSync(join(tmpdir(), 'rampart-node-files-'));

  constructor(deployed: Deployed) {
    this.deployed = deployed;
  }

  async prepare(): Promise<void> {
    const { client, cluster } = this.deployed;
    mkdirSync(join(this.files, 'etc'));
    for (const name of ['passwd', 'shadow']) writeFileSync(join(this.files, 'etc', name), 'root\n');
    chmodSync(join(this.files, 'etc/shadow'), 0);
    await client.create(namespaces, { metadata: { name: 'guard' } });
    const data = { conf: `${this.files} p+s+sha256\n` };
    await client.create(configMaps, { metadata: { namespace: 'guard', name: 'conf' }, data });
    await client.create(released.integrities, {
      metadata: { namespace: 'guard', name: 'machine' },
      spec: { config: { namespace: 'guard', name: 'conf', key: 'conf', gracePeriod: 10 } },
    } as unknown as FileIntegrity);
    // The operator binds it; what it binds is looked at in deploy-integrity.test.ts.
    for (const right of rightsOf('rampart-agent-file-integrity')) cluster.granted.add(`${right} in guard`);
    await this.#createPolicy('open', { path: '/secret.txt', create: true, mode: 444 });
    await this.#createPolicy('closed', { path: closedFile });
  }

  async #createPolicy(name: string, trap: KivePolicy['spec']['traps'][number] | object): Promise<void> {
    const match = { pod: 'nginx-pod', namespace: 'default', matchLabels: { 'security-level': 'high' } };
    await this.deployed.client.create(kivePolicyType, {
      metadata: { name, namespace: 'kivebpf-system' },
      spec: { traps: [{ ...trap, matchAny: [match] }] },
    } as KivePolicy);
  }

  async #ready(name: string): Promise<{ readonly status: string; readonly message?: string } | undefined> {
    const { status } = await this.deployed.client.get(kivePolicyType, { namespace: 'kivebpf-system', name });
    return status?.conditions?.find(({ type }) => type === 'Ready');
  }

  async isGuarded(name: string): Promise<boolean> {
    return (await this.#ready(name))?.status === 'True';
  }

  /** Why a policy is not as it should be. */
  async problemOf(name: string): Promise<string> {
    return (await this.#ready(name))?.message ?? '';
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.deployed[Symbol.asyncDispose]();
    rmSync(this.files, { recursive: true });
  }
}

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

suite('deploy/ in a lab', { skip, timeout }, () => {
  test('guards with exactly what its manifests allow', async (t) => {
    await using stage = new Stage(await Deployed.start());
    const { deployed } = stage;
    const { client, lab, cluster, agentCapabilities } = deployed;
    await stage.prepare();
    const pod = await deployed.runPod({
      ...{ name: 'nginx-pod', namespace: 'default', labels: { 'security-level': 'high' } },
    });
    const [nginx] = pod.containers.values();
    assert.ok(nginx);
    const script = `mkdir -m 700 /closed && echo x > ${closedFile} && chown -R 101 /closed`;
    assert.equal((await lab.exec(nginx, ['sh', '-c', script])).exitCode, 0);
    const operator = await deployed.runWorkload('rampart-operator');

    await t.test('with all of it, pods and files are guarded', async () => {
      await using agent = await deployed.runWorkload('rampart-agent');
      const mask = agentCapabilities.reduce(
        (bits, name) => bits | (1n << BigInt(capabilityNumbers[name] ?? 63)),
        0n,
      );
      const confined = { noNewPrivileges: '1', seccomp: '2', isRootReadOnly: true };
      assert.deepEqual(rightsOfProcess(agent), { ...confined, user: '0', capabilities: [mask, mask, mask] });
      assert.deepEqual(rightsOfProcess(operator), { ...confined, user: '65532', capabilities: [0n, 0n, 0n] });
      for (const one of [agent, operator]) {
        const answers = await one.until('to be alive and ready', () => deployed.probe(one));
        assert.match(answers.join(''), /ok\n[^]*ready\n$/);
      }
      const doctor = await agent.rampart('doctor');
      assert.equal(doctor.exitCode, 0, doctor.stdout);

      for (const name of ['open', 'closed']) await agent.until(name, () => stage.isGuarded(name));
      for (const path of ['/secret.txt', closedFile]) {
        await lab.exec(nginx, ['cat', path]);
        const alert = await agent.until(`the alert of ${path}`, () =>
          agent
            .lines('stdout')
            .filter((line) => line.startsWith('{"kive-alert-version"'))
            .map((line) => JSON.parse(line) as KiveAlert)
            .find(({ metadata }) => metadata.path === path),
        );
        assert.deepEqual(alert.pod, {
          ...{ name: 'nginx-pod', namespace: 'default', ip: pod.ip },
          container: { id: `containerd://${nginx.id}`, name: 'nginx' },
        });
        const { binary, cwd, arguments: words } = alert.process;
        assert.deepEqual({ binary, cwd, words }, { binary: '/bin/busybox', cwd: '/', words: path });
      }

      await agent.until('the baseline', () => said(agent, /changes are known at once/));
      const shadow = join(stage.files, 'etc/shadow');
      execFileSync('/bin/busybox', ['sed', '-i', 's/root/eve/', shadow]);
      const finding = await agent.until('the finding', () =>
        agent
          .lines('stdout')
          .map(parseFinding)
          .find((found) => found?.path === shadow),
      );
      assert.match(finding.author?.binary ?? '', /\/busybox$/, JSON.stringify(finding));
      assert.match(finding.author?.arguments ?? '', /^sed -i s\/root\/eve\//);
      const status = await agent.until('Failed', async () => {
        const target = { namespace: 'guard', name: `machine-${deployed.nodeName}` };
        const found = await client.get(released.nodeStatuses, target);
        return found.lastResult?.condition === 'Failed' && found;
      });
      const [told] = status.findings ?? [];
      assert.deepEqual([told?.path, told?.author?.pid], [shadow, finding.author?.pid]);
    });

    // In the end, as it asks whether each is in the list above.
    for (const name of agentCapabilities) {
      await t.test(`without ${name} it does not do all of its work, and says so`, async () => {
        const fails = failures[name];
        assert.ok(fails, 'what is it for? A capability of the manifest needs its reason here');
        await using agent = await deployed.runWorkload('rampart-agent', name);
        await agent.until(`what fails without ${name}`, () => fails(agent, stage));
      });
    }
    assert.deepEqual(agentCapabilities.toSorted(), Object.keys(failures).toSorted());
    // Without the right to create namespaces the operator goes on where its own is there.
    const refused = cluster.refused.filter((one) => !one.startsWith('rampart-operator: create namespaces'));
    assert.deepEqual(refused, []);
  });
});
