/** The scene of bpf-programs: programs on the node, in the network of a pod and in its processes. */
import assert from 'node:assert/strict';

import { isAlreadyExists } from '../../../lib/kube/client/client-errors.ts';
import { type ParentObject } from '../../../guards/bpf-programs/api.ts';
import { parentKind } from '../../../guards/bpf-programs/parent-kind.fixture.ts';
import { countObject } from '../../../guards/bpf-programs/image.fixture.ts';
import { entryOffset } from '../../bpf-programs/entry-offset.fixture.ts';
import type { DeployedPod } from './deployed.fixture.ts';
import type { Play, Stage } from './stage.fixture.ts';

const probesObject = countObject.replace('count.bpf.o', 'probes.bpf.o');
/** In a directory of another user, with mode 0700. */
const closedProgram = '/closed/busybox';
const nodeselector = {};
const containers = { namespace: 'default', pods: { matchLabels: { 'security-level': 'high' } } };

/** On the node's own loopback. */
const onNode = {
  kind: 'XdpProgram',
  spec: {
    ...{ nodeselector, bpffunctionname: 'xdp_count', bytecode: { path: countObject } },
    ...{ interfaceselector: { interfaces: ['lo'] }, priority: 50 },
  },
};
const classifier = {
  kind: 'TcProgram',
  spec: { ...onNode.spec, bpffunctionname: 'tc_count', direction: 'ingress' },
};
const inPod = {
  kind: 'XdpProgram',
  spec: { ...onNode.spec, interfaceselector: { interfaces: ['eth0'] }, containers },
};
const probe = (target: string): typeof onNode | { kind: string; spec: object } => ({
  kind: 'UprobeProgram',
  spec: {
    ...{ nodeselector, bpffunctionname: 'on_uprobe', bytecode: { path: probesObject } },
    ...{ target, offset: entryOffset('/bin/busybox'), containers },
  },
});

async function make(
  { deployed: { client } }: Stage,
  name: string,
  { kind, spec }: { readonly kind: string; readonly spec: object },
): Promise<void> {
  try {
    await client.create(parentKind(kind).type, { metadata: { name }, spec } as unknown as ParentObject);
  } catch (error) {
    if (!isAlreadyExists(error)) throw error;
  }
}

async function conditionOf(
  { deployed: { client } }: Stage,
  kind: string,
  name: string,
): Promise<{ readonly type: string; readonly message: string }> {
  const { status } = await client.get(parentKind(kind).type, { name });
  return status?.conditions?.[0] ?? { type: '', message: '' };
}

/** A new program, as what runs goes on whatever the agent may do; and why it does not run. */
function refused(name: string, what: { readonly kind: string; readonly spec: object }, message: RegExp) {
  return async (_: DeployedPod, stage: Stage): Promise<boolean> => {
    await make(stage, name, what);
    const found = await conditionOf(stage, what.kind, name);
    return found.type === 'ReconcileError' && message.test(found.message);
  };
}

export const bpfPrograms: Play = {
  prepare: async (stage) => {
    // As systemd has it on a node; one of its own, since ip(8) mounts one for the whole machine, where others clean up.
    await stage.deployed.onNode(
      'mount -t bpf bpf /sys/fs/bpf; mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing',
    );
    await stage.inPod('sh', '-c', `cp /bin/busybox ${closedProgram} && chown 101 ${closedProgram}`);
    await make(stage, 'on-node', onNode);
    await make(stage, 'classifier', classifier);
    await make(stage, 'in-pod', inPod);
    await make(stage, 'probe', probe(closedProgram));
  },
  works: async (agent, stage) => {
    const all = [
      ['XdpProgram', 'on-node'],
      ['TcProgram', 'classifier'],
      ['XdpProgram', 'in-pod'],
      ['UprobeProgram', 'probe'],
    ] as const;
    for (const [kind, name] of all) {
      await agent.until(name, async () => {
        const { type, message } = await conditionOf(stage, kind, name);
        if (type === 'ReconcileSuccess') return true;
        throw new Error(`${type}: ${message}`);
      });
    }
    const listed = await agent.rampart('bpf', 'list', '-o', 'json');
    assert.equal(listed.exitCode, 0, listed.stderr);
    const { programs } = JSON.parse(listed.stdout) as { programs: { owner: string }[] };
    assert.deepEqual(programs.map(({ owner }) => owner).toSorted(), [
      'TcProgram/classifier',
      'UprobeProgram/probe',
      'XdpProgram/in-pod',
      'XdpProgram/on-node',
    ]);
  },
  fails: {
    NET_ADMIN: refused('no-net-admin', classifier, /CAP_NET_ADMIN|EPERM/),
    SYS_ADMIN: refused('no-sys-admin', inPod, /CAP_SYS_ADMIN|EPERM/),
    SYS_PTRACE: refused('no-sys-ptrace', probe('/bin/busybox'), /CAP_SYS_PTRACE|EACCES|EPERM/),
    DAC_READ_SEARCH: refused('no-dac-read-search', probe(closedProgram), /CAP_DAC_READ_SEARCH|EACCES/),
  },
};
