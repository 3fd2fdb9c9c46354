/** What a guest gets from its host: calls and limits. */
import type { AskedOfHost } from '../messages.ts';

/** Host of one evaluation. */
export interface GuestHost {
  /** Waits for the answer. @throws {HostRefusal} whose message is passed to the guest. */
  ask(asked: AskedOfHost): Uint8Array;
  /** Logs what the guest prints besides its answer. */
  say(text: string): void;
}

/** The host refused the call, or failed. */
export class HostRefusal extends Error {
  override readonly name = 'HostRefusal';
}
