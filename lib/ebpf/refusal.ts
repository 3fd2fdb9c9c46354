/** The kernel's answer as an error that carries its errno. */
import { errorCodes, RampartError } from '../errors/errors.ts';
import { Descriptor, type Outcome, type Refusal } from './bpf-call.ts';
import { errnoText } from './libc.ts';
import { shownLog } from './verifier-log.ts';

/** bpf(2), perf_event_open(2) or rtnetlink said no: a `RampartError` of code `EBPF`. */
export class KernelRefusal extends RampartError {
  /** Positive. */
  readonly errno: number;
  /** The verifier's log; empty when the kernel refused before verifying. */
  readonly log: string;

  /** @param what - What failed, as a phrase: "cannot attach XDP program 17 to eth0". */
  constructor(what: string, refusal: Refusal, next?: string) {
    super(errorCodes.EBPF, { what, why: errnoText(refusal.errno), next, detail: shownLog(refusal.log) });
    this.errno = refusal.errno;
    this.log = refusal.log;
  }
}

/** @throws {KernelRefusal} unless the kernel gave a descriptor. */
export function granted(what: string, outcome: Outcome): Descriptor {
  if (outcome instanceof Descriptor) return outcome;
  throw new KernelRefusal(what, outcome);
}

/** @throws {KernelRefusal} if `refusal` is given. */
export function done(what: string, refusal: Refusal | undefined): void {
  if (refusal !== undefined) throw new KernelRefusal(what, refusal);
}
