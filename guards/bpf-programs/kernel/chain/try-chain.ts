/** Tests whether programs could join the chain of a hook: they are composed with what runs there and loaded, but not attached. */
import { createPerCpuArray } from '../../../../lib/ebpf/bpf-call.ts';
import type { Instructions } from '../../../../lib/ebpf/instructions.ts';
import { granted } from '../../../../lib/ebpf/refusal.ts';
import { inOrder } from './chain.ts';
import type { WantedMember } from './chain-member.ts';
import { compose } from './compose-members.ts';
import type { Direction } from '../desired.ts';
import type { ProgramFailure } from '../failure.ts';
import { Pins } from '../pins/pins.ts';
import { type ChainRecord, type ProgramRecord, RECORD_VERSION, Records } from '../records.ts';
import { type Kept, type ReadOptions, readKept } from '../running/kept.ts';

export interface TriedHook {
  readonly kind: 'tc' | 'xdp';
  /** An interface of the node; undefined: an interface on which nothing runs, as in a pod that does not exist yet. */
  readonly interface: string | undefined;
  readonly direction: Direction | undefined;
}

/** A program that is loaded for the duration of the test. */
export interface Joining {
  /** Unique among the joining programs. */
  readonly id: string;
  /** The requesting object: programs that already run for it are replaced. */
  readonly owner: string;
  /** Name of the object: breaks ties of priority. */
  readonly name: string;
  readonly functionName: string;
  readonly priority: number;
  readonly proceedOn: number;
  /** The instructions, with descriptors of the maps. */
  readonly instructions: Instructions;
  readonly mapIds: readonly number[];
  readonly gpl: boolean;
  readonly hasFrags: boolean;
}

export interface TriedChain {
  /** The number of programs that would run there. */
  readonly members: number;
  /** Programs that cannot join the chain, by id; they may include some that run there now. */
  readonly refused: ReadonlyMap<string, ProgramFailure>;
}

const nothingKept: Kept = { pins: new Pins(''), programs: new Map(), chains: [] };

/**
 * @param options - Where the agent keeps its programs; undefined if nothing runs here.
 * @throws {KernelRefusal}
 */
export function tryChain(
  options: ReadOptions | undefined,
  hook: TriedHook,
  joining: readonly Joining[],
): TriedChain {
  const kept = options === undefined ? nothingKept : readKept(options);
  const records = new Records(options?.stateDirectory ?? '');
  const owners = new Set(joining.map(({ owner }) => owner));
  const running = (kept.chains.find((chain) => isAt(chain, hook))?.members ?? []).flatMap(
    ({ id, priority, proceedOn }): WantedMember[] => {
      const record = kept.programs.get(id);
      return record === undefined || owners.has(record.owner) ? [] : [{ record, priority, proceedOn }];
    },
  );
  const own = new Map(joining.map((one) => [one.id, one]));
  const newcomers = joining.map((one): WantedMember => {
    const { priority, proceedOn } = one;
    return { record: recordOf(one, hook), priority, proceedOn };
  });
  const members = inOrder([...running, ...newcomers]);
  using runs = granted(
    'cannot create the map that counts runs',
    createPerCpuArray(members.length * 8, 1, 'rampart_runs'),
  );
  using composed = compose(
    {
      place: { kind: hook.kind, hook: { shown: shownHook(hook) } },
      slots: new Map(members.map(({ record }, slot) => [record.id, slot])),
      ...{ runs, pins: kept.pins },
      instructionsOf: (record, maps) =>
        own.get(record.id)?.instructions.copy() ?? maps.resolve(record, records),
    },
    members,
  );
  return { members: composed.members.length, refused: composed.refused };
}

function isAt(chain: ChainRecord, hook: TriedHook): boolean {
  return (
    !chain.inContainer &&
    chain.kind === hook.kind &&
    chain.interface === hook.interface &&
    chain.direction === hook.direction
  );
}

function shownHook({ interface: name = 'an interface', direction }: TriedHook): string {
  return direction === undefined ? name : `${name} ${direction}`;
}

/** The record that the agent would keep; it is not stored. */
function recordOf(joining: Joining, { kind }: TriedHook): ProgramRecord {
  const { id, owner, name, functionName, mapIds, gpl, hasFrags } = joining;
  return {
    ...{ version: RECORD_VERSION, id, owner, name, functionName, gpl, hasFrags, type: kind },
    ...{
      key: '',
      generation: 0,
      namespace: undefined,
      digest: '',
      loadKey: '',
      attachKey: '',
      attachPoint: '',
    },
    ...{ programId: 0, sharedWith: undefined, tenant: undefined, notes: [] },
    maps: mapIds.map((mapId) => ({ name: '', internal: false, id: mapId, pin: '' })),
  };
}
