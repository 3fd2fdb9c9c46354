/** The input of the judge. */
import type { Family } from '../engine/rules.ts';

/** The first packet of a connection, after the translation of Service addresses. */
export interface Packet {
  /** A pod (`namespace/name`) or an address. */
  readonly from: string;
  readonly to: string;
  /** Default: the family of the address, or the first family in which both pods have an address. */
  readonly family?: Family | undefined;
  /** `TCP`, `UDP`, `SCTP`, or another one, which has no ports. */
  readonly protocol: string;
  /** Port of the destination. */
  readonly port?: number | undefined;
}
