// The process is killed at random moments while programs come and go; the API keeps what is asked for, on disk.
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { before, suite, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';

import { KubeClient } from '../../lib/kube/client/client.ts';
import { isAlreadyExists, isNotFound } from '../../lib/kube/client/client-errors.ts';
import { findClusterAccess } from '../../lib/kube/access/cluster-access.ts';
import { Random, scaled, seed } from '../../lib/testing/depth.fixture.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { nodeTypes, type ParentObject } from '../../guards/bpf-programs/api.ts';
import { parentKind } from '../../guards/bpf-programs/parent-kind.fixture.ts';
import { countObject } from '../../guards/bpf-programs/image.fixture.ts';
import { cable, obstacle, ownNetwork, send } from '../../guards/bpf-programs/kernel/lab.fixture.ts';
import { pinDirectory } from '../../guards/bpf-programs/node/locked-host.ts';
import { BpfStandalone } from './standalone.fixture.ts';

const kinds = ['XdpProgram', 'TcProgram'] as const;
type Kind = (typeof kinds)[number];

function program(kind: Kind, name: string, priority: number): ParentObject {
  const spec = {
    nodeselector: {},
    interfaceselector: { interfaces: ['busy0'] },
    bytecode: { path: countObject },
    bpffunctionname: kind === 'XdpProgram' ? 'xdp_count' : 'tc_count',
    ...(kind === 'TcProgram' && { direction: 'ingress' }),
    priority,
  };
  return { metadata: { name }, spec };
}

/** Creates and deletes a few programs until the API stops answering. */
async function churn(client: KubeClient, random: Random, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const kind = kinds[random.below(2)] ?? 'XdpProgram';
    const { type } = parentKind(kind);
    const name = `comes-${random.below(6)}`;
    try {
      if (random.chance(0.6)) await client.create(type, program(kind, name, random.below(100)), { signal });
      else await client.delete(type, { name }, { signal });
    } catch (error) {
      if (isAlreadyExists(error) || isNotFound(error)) continue;
      // Killed: what was asked for last may be there or not.
      return;
    }
    await delay(random.below(30));
  }
}

suite(`kills (RAMPART_TEST_SEED=${seed})`, { skip: obstacle() ?? false, timeout: 600_000 }, () => {
  before(() => {
    ownNetwork();
    cable('busy0', 'busy1');
  });

  test('after each the kernel has what is asked for, and those that stay have seen every packet', async (t) => {
    const random = new Random(seed);
    await using machine = new BpfStandalone();
    await machine.start();
    const connect = (): KubeClient =>
      new KubeClient(findClusterAccess({ path: machine.process.at('data/kubeconfig') }));
    {
      using client = connect();
      for (const kind of kinds) await client.create(parentKind(kind).type, program(kind, 'stays', 50));
    }
    for (const kind of kinds) await machine.untilCondition('ReconcileSuccess', kind.toLowerCase(), 'stays');
    const listed = async (): Promise<
      readonly { readonly id: string; readonly owner: string; readonly programId: number }[]
    > => (JSON.parse((await machine.bpf('list', '-o', 'json')).stdout) as { programs: never[] }).programs;
    const staying = await listed();
    assert.equal(staying.length, 2);
    let sent = 0;
    const sendSome = async (forMs: number): Promise<void> => {
      for (const endMs = performance.now() + forMs; performance.now() < endMs; sent += 50) {
        send('busy1', 50);
        await delay(2);
      }
    };
    const rounds = scaled(40, 4);
    for (let round = 0; round < rounds; round++) {
      using client = connect();
      const stop = new AbortController();
      const churning = churn(client, random, stop.signal);
      await sendSome(random.below(800));
      await machine.process.stop('SIGKILL');
      stop.abort();
      await churning;
      await sendSome(20);
      // It is killed while it starts, too.
      if (random.chance(0.3)) {
        const starting = machine.start().catch(() => undefined);
        await sendSome(random.below(700));
        await machine.process.stop('SIGKILL');
        await starting;
      }
      await Promise.all([machine.start(), sendSome(300)]);
    }
    using client = connect();
    const asked = async (): Promise<string[]> => {
      const lists = await Promise.all(
        kinds.map(async (kind) =>
          (await client.list(parentKind(kind).type)).items.map((one) => [kind, one] as const),
        ),
      );
      return lists.flat().map(([kind, { metadata }]) => `${kind}/${metadata.name}`);
    };
    await until('what runs is what is asked for', async () => {
      const [want, nodeObjects] = await Promise.all([asked(), client.list(nodeTypes.Cluster)]);
      const have = (await listed()).map(({ owner }) => owner);
      return (
        have.toSorted().join() === want.toSorted().join() &&
        nodeObjects.items.length === want.length &&
        nodeObjects.items.every(({ status }) => status?.conditions?.[0]?.type === 'Loaded')
      );
    });
    for (const { id, owner, programId } of staying) {
      assert.equal(
        (await listed()).find((one) => one.owner === owner)?.programId,
        programId,
        `${owner} was loaded again`,
      );
      assert.equal(machine.counted(id), sent, owner);
    }
    assert.equal(
      readdirSync(join(machine.bpffs, pinDirectory, 'programs')).length,
      (await listed()).length,
      'pins that belong to nothing',
    );
    t.diagnostic(`${rounds} rounds, ${sent} packets, ${(await listed()).length} programs in the end`);
  });
});
