/**
 * What runs on an interface, in its order.
 *
 * @module
 */
import { join } from 'node:path';

import type { ChainRecord } from '../kernel/records.ts';
import { tcActions, xdpActions } from '../spec-schema.ts';
import type { Inspected } from './place.ts';
import { runsOf } from './runs.ts';

export interface ShownMember {
  readonly priority: number;
  readonly owner: string;
  readonly functionName: string;
  readonly programId: number;
  /** The next one runs after these. */
  readonly proceedOn: readonly string[];
  /** Packets that it was given since it joined. */
  readonly runs: number;
}

export interface ShownChain {
  readonly interface: string;
  readonly type: 'tc' | 'tcx' | 'xdp';
  readonly direction: string | null;
  /** Decimal inode of the network namespace of a pod; null: the node's. */
  readonly networkNamespace: string | null;
  /** Of the composed program; null: each is attached by itself. */
  readonly programId: number | null;
  readonly members: readonly ShownMember[];
  readonly notes: readonly string[];
}

/** The chains of an interface of the node and of pods; without a name of all. */
export function chainsOf({ programs, chains, pins }: Inspected, interfaceName?: string): ShownChain[] {
  const byId = new Map(programs.map((one) => [one.id, one]));
  return chains
    .filter((chain) => interfaceName === undefined || chain.interface === interfaceName)
    .map((chain): ShownChain => {
      const runs = runsOf(join(pins.chain(chain.key), 'runs'));
      return {
        interface: chain.interface,
        type: chain.kind,
        direction: chain.direction ?? null,
        networkNamespace: chain.inContainer ? chain.namespaceInode : null,
        programId: chain.programId,
        members: chain.members.map((member) => ({
          priority: member.priority,
          owner: byId.get(member.id)?.owner ?? member.id,
          functionName: byId.get(member.id)?.functionName ?? '',
          programId: member.programId,
          proceedOn: namesOf(chain.kind, member.proceedOn),
          runs: Number(runs[member.slot] ?? 0n),
        })),
        notes: chain.notes,
      };
    });
}

/** As the resources have them. */
export function namesOf(kind: ChainRecord['kind'], mask: number): string[] {
  const names: readonly string[] = kind === 'xdp' ? xdpActions : tcActions;
  const last = 'dispatcher_return';
  return names.filter((name, bit) => (mask >>> (name === last ? 31 : bit)) & 1);
}
