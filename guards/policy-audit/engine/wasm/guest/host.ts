/** The environment of a guest: how it calls the host, and its limits. */
import type { AskedOfHost } from '../messages.ts';

/** Host of one evaluation. */
export interface GuestHost {
  /** Waits for the answer. @throws {HostRefusal} whose message is passed to the guest. */
  ask(asked: AskedOfHost): Uint8Array;
  /** For the log, if the guest prints something besides its answer. */
  say(text: string): void;
}

/** The host refused the call, or failed. */
export class HostRefusal extends Error {
  override readonly name = 'HostRefusal';
}
