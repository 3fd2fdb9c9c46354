/** The members of a chain, and where it is. */
import type { ChainRecord, ProgramRecord } from '../records.ts';
import type { ChainHook } from './chain-hook.ts';

/** A program that is wanted in a hook's chain. */
export interface WantedMember {
  readonly record: ProgramRecord;
  /** The previous version, which runs in its place if the chain does not accept the new one. */
  readonly fallback?: ProgramRecord | undefined;
  readonly priority: number;
  readonly proceedOn: number;
}

export interface ChainPlace {
  readonly key: string;
  readonly kind: 'tc' | 'xdp';
  readonly hook: ChainHook;
  /** Where the chain is: these fields of its record. */
  readonly where: Pick<
    ChainRecord,
    'direction' | 'inContainer' | 'interface' | 'interfaceIndex' | 'namespaceInode'
  >;
}
