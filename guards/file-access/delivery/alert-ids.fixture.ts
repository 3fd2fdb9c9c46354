/** Names for alerts, by which a receiver knows one that it gets twice. */
import { randomBytes } from 'node:crypto';

/** Counts up from a random start of its own: unique over nodes, restarts and traps.. */
export class AlertIds {
  readonly #start = `${randomBytes(12).toString('hex')}-`;
  #count = 0;

  /** `4b1f0c...-1a`: 24 hexadecimal digits, then a number in base 36. */
  next(): string {
    return this.#start + (this.#count++).toString(36);
  }
}
