/**
 * A node with something to guard, and what a guard shows there: with all that deploy/ gives it, and without each capability.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { rightsOf } from '../../../apps/agent/deploy.fixture.ts';
import { parseFinding } from '../../../guards/file-integrity/status/finding-line-kind.ts';
import { configMaps, namespaces } from '../../../lib/kube/object/object.ts';
import type { KiveAlert } from '../../../guards/file-access/alert/alert.ts';
import { type KivePolicy, kivePolicyType } from '../../../guards/file-access/api.ts';
import { type FileIntegrity, released } from '../../../guards/file-integrity/api.ts';
import { customResourceDefinitions } from '../../../lib/kube/crd/established.ts';
import { crdManifest } from '../../../lib/kube/crd/manifest.ts';
import {
  clusterPolicyReports,
  policyReports,
  policyReportType,
} from '../../../guard/reports/policy-reports.ts';
import { clusterAdmissionPolicyType } from '../../../guards/policy-audit/api.ts';
import { networkPolicies } from '../../../guards/network-policy/api.ts';
import type { ChangeAuthor, Finding } from '../../../guards/file-integrity/model/finding.ts';
import type { LabContainer, LabPod } from '../lab.ts';
import { Deployed, type DeployedPod } from './deployed.fixture.ts';

/** In a directory of another user, with mode 0700: not even root may search it without DAC_READ_SEARCH. */
const closedFile = '/closed/secret.txt';
/** Where the pod has files of the node. */
const filesInPod = '/node-files';

/** Common to all guards. */
export class Stage implements AsyncDisposable {
  readonly deployed: Deployed;
  /** On the node, which the agent has below /hostroot. */
  readonly files = mkdtempSync(join(tmpdir(), 'rampart-node-files-'));
  #pod: LabPod | undefined;
  #nginx: LabContainer | undefined;

  private constructor(deployed: Deployed) {
    this.deployed = deployed;
  }

  /** A pod, and the operator; the guards below prepare their own objects. */
  static async start(kustomization?: string): Promise<Stage> {
    const stage = new Stage(await Deployed.start(kustomization));
    try {
      await stage.#prepare();
      return stage;
    } catch (error) {
      await stage[Symbol.asyncDispose]();
      throw error;
    }
  }

  async #prepare(): Promise<void> {
    mkdirSync(join(this.files, 'etc'));
    for (const name of ['passwd', 'shadow', 'group']) writeFileSync(join(this.files, 'etc', name), 'root\n');
    chmodSync(join(this.files, 'etc/shadow'), 0);
    this.#pod = await this.deployed.runPod({
      ...{ name: 'nginx-pod', namespace: 'default', labels: { 'security-level': 'high' } },
      containers: [{ name: 'nginx', mounts: [{ containerPath: filesInPod, hostPath: this.files }] }],
    });
    [this.#nginx] = this.#pod.containers.values();
    const script = `mkdir -m 700 /closed && echo x > ${closedFile} && chown -R 101 /closed`;
    await this.inPod('sh', '-c', script);
  }

  get podIp(): string {
    return this.#pod?.ip ?? '';
  }

  get container(): LabContainer {
    assert.ok(this.#nginx);
    return this.#nginx;
  }

  async inPod(...command: readonly string[]): Promise<void> {
    const { exitCode, stderr } = await this.deployed.lab.exec(this.container, command);
    assert.equal(exitCode, 0, stderr);
  }

  async createPolicy(name: string, trap: KivePolicy['spec']['traps'][number] | object): Promise<void> {
    const match = { pod: 'nginx-pod', namespace: 'default', matchLabels: { 'security-level': 'high' } };
    await this.deployed.client.create(kivePolicyType, {
      metadata: { name, namespace: 'default' },
      spec: { traps: [{ ...trap, matchAny: [match] }] },
    } as KivePolicy);
  }

  async #ready(name: string): Promise<{ readonly status: string; readonly message?: string } | undefined> {
    const { status } = await this.deployed.client.get(kivePolicyType, { namespace: 'default', name });
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

export function said(agent: DeployedPod, what: RegExp): boolean {
  return what.test(agent.lines('stderr').join('\n'));
}

/** The node's findings about a file. */
function findings(agent: DeployedPod, path: string): Finding[] {
  return agent.lines('stdout').flatMap((line) => {
    const found = parseFinding(line);
    return found?.path === path ? [found] : [];
  });
}

/**
 * The author of a change. A comparison of a directory above, whose names changed before it was watched, may
 * find the change before its event is read: then it is reported again, with its author.
 */
async function authorOf(agent: DeployedPod, path: string): Promise<ChangeAuthor> {
  return await agent.until(
    `who changed ${path}`,
    () => findings(agent, path).find((one) => one.author !== undefined)?.author,
  );
}

/** A guard on the stage. */
export interface Play {
  /** Makes what users write. */
  readonly prepare: (stage: Stage) => Promise<void>;
  /** All of its work. */
  readonly works: (agent: DeployedPod, stage: Stage) => Promise<void>;
  /** By capability, what fails without it: why each of the manifest's list is there. */
  readonly fails: Readonly<Record<string, (agent: DeployedPod, stage: Stage) => boolean | Promise<boolean>>>;
}

export const fileAccess: Play = {
  prepare: async (stage) => {
    await stage.createPolicy('open', { path: '/secret.txt', create: true, mode: 444 });
    await stage.createPolicy('closed', { path: closedFile });
  },
  works: async (agent, stage) => {
    const { container } = stage;
    for (const name of ['open', 'closed']) await agent.until(name, () => stage.isGuarded(name));
    for (const path of ['/secret.txt', closedFile]) {
      await stage.inPod('cat', path);
      const alert = await agent.until(`the alert of ${path}`, () =>
        agent
          .lines('stdout')
          .filter((line) => line.startsWith('{"guard":"file-access"'))
          .map((line) => JSON.parse(line) as KiveAlert)
          .find(({ metadata }) => metadata.path === path),
      );
      assert.deepEqual(alert.pod, {
        ...{ name: 'nginx-pod', namespace: 'default', ip: stage.podIp },
        container: { id: `containerd://${container.id}`, name: 'nginx' },
      });
      const { binary, cwd, arguments: words } = alert.process;
      assert.deepEqual({ binary, cwd, words }, { binary: '/bin/busybox', cwd: '/', words: path });
    }
  },
  fails: {
    BPF: (agent) => said(agent, /accepts none of the sensor modes[^]*raw_tracepoint: .*needs CAP_BPF/),
    PERFMON: (agent) =>
      said(agent, /accepts none of the sensor modes[^]*raw_tracepoint: .*needs CAP_PERFMON/),
    SYS_PTRACE: async (_, stage) => /EACCES.*\/ns\/mnt.*CAP_SYS_PTRACE/.test(await stage.problemOf('open')),
    DAC_READ_SEARCH: async (_, stage) =>
      /cannot follow \/closed\/secret.txt .*EACCES/.test(await stage.problemOf('closed')),
  },
};

async function changeInPod(stage: Stage): Promise<void> {
  await stage.inPod('busybox', 'sed', '-i', 's/root/eve-&/', `${filesInPod}/etc/passwd`);
}

/** Made by a process of the node that enters the mounts of the pod, which its cgroup does not show. */
function changeFromOutside({ container: { pid } }: Stage): void {
  const words = ['busybox', 'sed', '-i', 's/root/eve-&/', `${filesInPod}/etc/group`];
  execFileSync('nsenter', ['--mount', '--target', String(pid), '--', ...words]);
}

export const fileIntegrity: Play = {
  prepare: async ({ deployed: { client, cluster }, files }) => {
    await client.create(namespaces, { metadata: { name: 'guard' } });
    const data = { conf: `${files} p+s+sha256\n` };
    await client.create(configMaps, { metadata: { namespace: 'guard', name: 'conf' }, data });
    await client.create(released.integrities, {
      metadata: { namespace: 'guard', name: 'machine' },
      spec: { config: { namespace: 'guard', name: 'conf', key: 'conf', gracePeriod: 10 } },
    } as unknown as FileIntegrity);
    // The operator binds it; what it binds is looked at in deploy-integrity.test.ts.
    for (const right of rightsOf('rampart-agent-file-integrity')) cluster.granted.add(`${right} in guard`);
  },
  works: async (agent, stage) => {
    const { client, nodeName } = stage.deployed;
    await agent.until('the baseline', () => said(agent, /changes are detected at once/));
    const shadow = join(stage.files, 'etc/shadow');
    execFileSync('/bin/busybox', ['sed', '-i', 's/root/eve/', shadow]);
    const author = await authorOf(agent, shadow);
    assert.match(author.binary, /\/busybox$/);
    assert.match(author.arguments, /^sed -i s\/root\/eve\//);
    const status = await agent.until('Failed', async () => {
      const target = { namespace: 'guard', name: `machine-${nodeName}` };
      const found = await client.get(released.nodeStatuses, target);
      const { lastResult, findings: all = [] } = found;
      return lastResult?.condition === 'Failed' && all.some((one) => one.author !== undefined) && found;
    });
    const [reported] = status.findings ?? [];
    assert.deepEqual([reported?.path, reported?.author?.pid], [shadow, author.pid]);

    await changeInPod(stage);
    const inPod = await authorOf(agent, join(stage.files, 'etc/passwd'));
    assert.deepEqual(inPod.pod, { namespace: 'default', name: 'nginx-pod' });

    changeFromOutside(stage);
    const entered = await authorOf(agent, join(stage.files, 'etc/group'));
    assert.deepEqual(entered.pod, inPod.pod);
  },
  fails: {
    BPF: (agent) => said(agent, /does not report who changes files: .*needs CAP_BPF/),
    PERFMON: (agent) => said(agent, /does not report who changes files: .*needs CAP_PERFMON/),
    // Not that it was in the mounts of the pod.
    SYS_PTRACE: (agent, stage) => {
      changeFromOutside(stage);
      return findings(agent, join(stage.files, 'etc/group')).some(
        ({ author }) => author !== undefined && author.pod === undefined,
      );
    },
    // With mode 0000, as on some distributions.
    DAC_READ_SEARCH: (agent) => said(agent, /could not be read/) && said(agent, /etc\/shadow: EACCES/),
  },
};

const table = 'nft list table inet rampart-network-policy';

export const networkPolicy: Play = {
  prepare: async ({ deployed: { client } }) => {
    await client.create(networkPolicies, {
      metadata: { namespace: 'default', name: 'closed' },
      spec: { podSelector: { matchLabels: { 'security-level': 'high' } }, policyTypes: ['Ingress'] },
    });
  },
  works: async (agent, { deployed, podIp }) => {
    // The agent's rules are in the network of the node, and none of them in its own.
    await agent.until('the rules', async () => {
      const rules = await deployed.onNode(table).catch(() => '');
      return rules.includes('default/closed') && rules.includes(podIp);
    });
  },
  fails: {
    NET_ADMIN: (agent) => said(agent, /network-policy is not available here.*CAP_NET_ADMIN/),
  },
};

/** The operator's alone: the agent has no part of it. */
export const policyAudit: Play = {
  prepare: async ({ deployed: { client } }) => {
    // As deploy/policy-reports has them.
    for (const resource of [policyReports, clusterPolicyReports]) {
      await client.create(customResourceDefinitions, crdManifest(resource) as never);
    }
    await client.create(clusterAdmissionPolicyType, {
      metadata: { name: 'labelled' },
      spec: {
        module: 'cel-policy',
        mutating: false,
        rules: [{ apiGroups: [''], apiVersions: ['v1'], resources: ['pods'], operations: ['CREATE'] }],
        settings: { validations: [{ expression: "'team' in object.metadata.labels", message: 'no team' }] },
      },
    } as never);
  },
  works: async (agent, { deployed: { client } }) => {
    await agent.until('the report of the pod', async () => {
      const { items } = await client.list(policyReportType, { namespace: 'default' });
      return items.some(({ scope, summary }) => scope?.name === 'nginx-pod' && summary?.fail === 1);
    });
  },
  fails: {},
};
