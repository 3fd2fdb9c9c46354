/**
 * An agent without a kernel: the client, the caches, the lease and the node parts of the guards are the product's own; what they would
 * program is noted instead.
 */
import { randomUUID } from 'node:crypto';

import { guards as allGuards } from '../../apps/guards.ts';
import { keepAgentLease } from '../../guard/agent-lease.ts';
import type { Guard } from '../../guard/guard.ts';
import { GuardStates } from '../../guard/guard-states.ts';
import type { GuardProcess } from '../../guard/part-context.ts';
import { runNodeParts } from '../../guard/run-guards.ts';
import { runBpfProgramsNode } from '../../guards/bpf-programs/node/run.ts';
import { FixtureKernel } from '../../guards/bpf-programs/program-host.fixture.ts';
import { runFileAccessNode } from '../../guards/file-access/node/file-access-node.ts';
import type { FileAccessKernel } from '../../guards/file-access/node/node-options.ts';
import type { FileState } from '../../guards/file-access/node/file-state.ts';
import { runFileIntegrityNode } from '../../guards/file-integrity/node/run.ts';
import type { NodeRules } from '../../guards/network-policy/engine/rules.ts';
import type { Dataplane } from '../../guards/network-policy/dataplane/dataplane.ts';
import { follow, runNetworkPolicyNode } from '../../guards/network-policy/node/run.ts';
import type { ContainerSource } from '../../lib/cri/container-source.ts';
import { SharedCaches } from '../../lib/kube/cache/shared-caches.ts';
import type { ClusterAccess } from '../../lib/kube/access/cluster-access.ts';
import { KubeClient } from '../../lib/kube/client/client.ts';
import { Health } from '../../lib/telemetry/health.ts';
import type { Logger } from '../../lib/telemetry/log.ts';

/** As the agent's: apps/agent/run.ts. */
const rate = { perSecond: 200, burst: 400, userAgent: 'rampart-agent' } as const;

/** The content of a kernel, by guard. */
export type Programmed = (guard: string, names: ReadonlySet<string>) => void;

export interface LightAgentOptions {
  readonly access: ClusterAccess;
  readonly nodeName: string;
  readonly containers: ContainerSource;
  /** For what guards keep. */
  readonly directory: string;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  /** Called with the names of the policies in force, each time that they may have changed. */
  readonly onProgrammed: Programmed;
}

/** Until the signal aborts. */
export async function runLightAgent(options: LightAgentOptions): Promise<void> {
  const { access, nodeName, directory, logger, signal, containers, onProgrammed } = options;
  using client = new KubeClient(access, rate);
  const states = new GuardStates();
  // Leases of kernels that no agent names are deleted: guard/left-leases.ts.
  const kernelId = `kernel-${nodeName}`;
  const identity = `${nodeName}_${randomUUID()}`;
  await using caches = new SharedCaches({ client, logger, onFailure: (error) => logger.error(error) });
  const process: GuardProcess = {
    ...{ client, logger, identity, caches },
    health: new Health(),
    metrics: undefined,
    sink: () => undefined,
  };
  await Promise.all([
    keepAgentLease({ client, nodeName, identity, kernelId, states, signal, logger }),
    runNodeParts(
      { guards: lightGuards(kernelId, onProgrammed), process, values: {}, signal, states },
      {
        ...{ nodeName, containers, hostRoot: '/', version: '0.0.0' },
        directoryOf: () => directory,
        say: () => undefined,
      },
    ),
  ]);
}

/** The product's, each with a node part that needs no kernel. */
function lightGuards(kernelId: string, onProgrammed: Programmed): Guard[] {
  const parts: Readonly<Record<string, Guard['node']>> = {
    'file-access': async () => (context) =>
      runFileAccessNode(context, {
        kernelId,
        kernel: notingFiles((names) => onProgrammed('file-access', names)),
      }),
    // Without a FileIntegrity it follows the API, and never scans.
    'file-integrity': async () => (context) => runFileIntegrityNode(context),
    'network-policy': async () => async (context) => {
      const followed = follow(context);
      using _objects = followed.objects;
      const dataplane = notingRules((names) => onProgrammed('network-policy', names));
      await runNetworkPolicyNode(context, { dataplane }, followed);
    },
    'bpf-programs': async () => (context) => {
      const kernel = new FixtureKernel();
      const openHost = async () => {
        const host = kernel.open();
        const apply: typeof host.apply = async (desired, signal) => {
          const outcomes = await host.apply(desired, signal);
          onProgrammed('bpf-programs', new Set(desired.map(({ owner }) => owner)));
          return outcomes;
        };
        return { ...host, apply };
      };
      return runBpfProgramsNode(context, { openHost, pull: () => Promise.reject(new Error('no registry')) });
    },
  };
  return allGuards.flatMap((guard) => {
    const node = parts[guard.name];
    return node === undefined ? [] : [{ ...guard, node }];
  });
}

function notingRules(note: (policies: ReadonlySet<string>) => void): Dataplane {
  const program = async ({ policies }: NodeRules) => {
    note(new Set([...policies.values()].map(({ policy }) => policy)));
    return { commands: 1 };
  };
  return {
    sync: program,
    apply: program,
    isEnforcing: async () => false,
    idle: async () => note(new Set()),
    verify: async () => [],
    isUndisturbed: () => true,
    disturbed: (signal) =>
      new Promise((resolve) => signal.addEventListener('abort', () => resolve(false), { once: true })),
    counters: async () => [],
    remove: async () => {
      note(new Set());
      return [];
    },
    ownerOfLog: () => undefined,
    [Symbol.dispose]: () => undefined,
  };
}

/** Each path of each container is a file that is there. */
function notingFiles(note: (policies: ReadonlySet<string>) => void): FileAccessKernel {
  let inode = 0n;
  const stats = {
    ...{ produced: 0, received: 0, folded: 0, recycled: 0, own: 0, verdictUnknown: 0, hookMisses: 0 },
    ...{
      targets: 0,
      capacity: 65_536,
      refusedDirectories: 0,
      lost: { ringFull: 0, noReturn: 0, consumer: 0 },
    },
  };
  return {
    openSensor: () => {
      const policies = new Map<string, string>();
      return {
        applyChanges: ({ add, remove }) => {
          for (const { name } of remove) policies.delete(name);
          for (const { name, context } of add)
            policies.set(name, `${context.policyNamespace}/${context.policyName}`);
          note(new Set(policies.values()));
        },
        attach: () => undefined,
        detach: () => undefined,
        filtered: 0,
        directoryFiles: 0,
        identify: () => ({ inode: ++inode, device: 1, generation: 0 }),
        mode: 'fentry',
        moved: 0,
        refused: new Map(),
        get size() {
          return policies.size;
        },
        stats: () => stats,
        [Symbol.dispose]: () => undefined,
      };
    },
    openFiles: () => {
      const known = new Map<string, FileState>();
      return {
        droppedMoved: 0,
        overflows: 0,
        unwatched: { files: 0, directories: 0 },
        follow: ({ id }, traps) =>
          new Map(
            traps.map((trap) => {
              const key = `${id} ${trap.policyKey} ${trap.slot}`;
              let state = known.get(key);
              if (state === undefined) {
                state = { kind: 'watched', identity: { inode: ++inode, device: 1, generation: 0 } };
                known.set(key, state);
              }
              return [trap, { state, processes: undefined }];
            }),
          ),
        forget: () => undefined,
        [Symbol.dispose]: () => undefined,
      };
    },
  };
}
