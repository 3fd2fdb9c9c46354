/** What a guest is run with: how it asks the host, and what it may use up. */
import type { AskedOfHost } from '../messages.ts';

/** Of one evaluation. */
export interface GuestHost {
  /** Waits for the answer. @throws {HostRefusal} whose message the guest is given. */
  ask(asked: AskedOfHost): Uint8Array;
  /** For the log, where the guest says something beside its answer. */
  say(text: string): void;
}

/** The host said no, or could not. */
export class HostRefusal extends Error {
  override readonly name = 'HostRefusal';
}
