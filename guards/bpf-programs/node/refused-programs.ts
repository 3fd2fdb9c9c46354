/** Remembers programs that the kernel has refused, for some time. */
import type { Clock } from '../../../lib/time/clock.ts';
import type { DesiredProgram, Failure, Outcome } from '../kernel/desired.ts';

/**
 * How long each reason is remembered. The verifier's answer changes only if a module is loaded, and the rules stay the same as well;
 * bytecode may be corrected in its registry.
 */
const AGAIN_MS = { load: 600_000, 'not-allowed': 600_000, bytecode: 30_000 } as const;

interface Refused {
  readonly key: string;
  readonly failure: Failure;
  readonly againAtMs: number;
}

/**
 * Verifying a large program takes a second of CPU, so a refused one is not tried again in every pass: another program may cause a pass
 * every second.
 */
export class RefusedPrograms {
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  readonly #refused = new Map<string, Refused>();

  constructor(clock: Pick<Clock, 'monotonicMs'>) {
    this.#clock = clock;
  }

  /**
   * The kernel's refusal of exactly this program, if it is too early to try again.
   *
   * @param together - The other programs of an all-or-nothing load.
   */
  failureOf(desired: DesiredProgram, together = ''): Failure | undefined {
    const known = this.#refused.get(desired.id);
    if (known?.key !== keyOf(desired, together) || known.againAtMs <= this.#clock.monotonicMs())
      return undefined;
    return known.failure;
  }

  /** Records the outcome of a pass that reached the kernel. */
  note(desired: DesiredProgram, outcome: Outcome | undefined, together = ''): void {
    const failure = outcome?.state === 'kept' ? outcome.failure : outcome;
    const isRefused =
      failure?.state === 'failed' &&
      (failure.reason === 'load' || failure.reason === 'not-allowed' || failure.reason === 'bytecode');
    // For bytecode, `mayPass` means that it can be fetched later; for other reasons, that something else is in the way for the moment.
    if (!isRefused || (failure.reason !== 'bytecode' && failure.mayPass)) {
      this.#refused.delete(desired.id);
      return;
    }
    const againAtMs = this.#clock.monotonicMs() + AGAIN_MS[failure.reason];
    this.#refused.set(desired.id, { key: keyOf(desired, together), failure, againAtMs });
  }

  /** Forgets all other programs. */
  keepOnly(ids: ReadonlySet<string>): void {
    for (const id of this.#refused.keys()) if (!ids.has(id)) this.#refused.delete(id);
  }
}

/** A key of everything that the kernel's answer may depend on. */
function keyOf(
  { digest, functionName, globals, mapGroup, mapOwner, attach }: DesiredProgram,
  together: string,
): string {
  return JSON.stringify(
    [digest, functionName, globals, mapGroup, mapOwner, attach, together],
    (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value),
  );
}
