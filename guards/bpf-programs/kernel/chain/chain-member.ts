/** The members of a chain, and where it is. */
import type { ChainRecord, ProgramRecord } from '../records.ts';
import type { ChainHook } from './chain-hook.ts';

/** One program of a hook. */
export interface WantedMember {
  readonly record: ProgramRecord;
  /** The version before, which runs in its place if the chain does not accept it. */
  readonly fallback?: ProgramRecord | undefined;
  readonly priority: number;
  readonly proceedOn: number;
}

export interface ChainPlace {
  readonly key: string;
  readonly kind: 'tc' | 'xdp';
  readonly hook: ChainHook;
  /** The parts of a record that are not computed here. */
  readonly where: Pick<
    ChainRecord,
    'direction' | 'inContainer' | 'interface' | 'interfaceIndex' | 'namespaceInode'
  >;
}
