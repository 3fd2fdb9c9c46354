/** Finds the reason for a kernel's refusal. Pure decisions, no system calls. */
import { constants } from 'node:os';

import { type EbpfCapability, missingCapabilities } from './capabilities.ts';
import type { Refusal } from '../bpf-call.ts';
import { errnoName } from '../libc.ts';
import type { Feature, FeatureReason } from './feature.ts';

/** Facts about this process and kernel that are known before the first probe. */
export interface ProbeContext {
  /** `uname -r`. */
  readonly release: string;
  readonly capabilities: readonly string[];
  readonly inUserNamespace: boolean;
  readonly lockdown: 'none' | 'integrity' | 'confidentiality' | undefined;
  readonly lsms: readonly string[] | undefined;
  /** Whether the kernel's BTF contains the function, which shows how the kernel was built. Undefined without BTF. */
  readonly hasFunction: (name: string) => boolean | undefined;
}

export interface Needs {
  /** The first kernel that has the feature: "5.8". */
  readonly since: string;
  readonly capabilities: readonly EbpfCapability[];
  /** A kernel function that exists if, and only if, the feature was built in. */
  readonly builtWith?: string;
}

export const available: Feature = { available: true };

export function unavailable(reason: FeatureReason, detail: string): Feature {
  return { available: false, reason, detail };
}

/** The last line of a verifier log that says why, without the statistics that end every log. */
export function lastVerifierLine(log: string): string | undefined {
  return log
    .split('\n')
    .map((line) => line.trim())
    .findLast(
      (line) => line !== '' && !line.startsWith('processed ') && !line.startsWith('verification time'),
    );
}

/** "A, B and C". */
function listed(names: readonly string[]): string {
  return new Intl.ListFormat('en-GB').format(names);
}

/** Whether a kernel release ("6.1.0-25-amd64") is at least "5.8". True for a release that cannot be parsed. */
export function isAtLeast(release: string, since: string): boolean {
  const [major, minor] = numbersOf(release);
  const [sinceMajor, sinceMinor] = numbersOf(since);
  if (major === undefined || minor === undefined || sinceMajor === undefined) return true;
  return major !== sinceMajor ? major > sinceMajor : minor >= (sinceMinor ?? 0);
}

function numbersOf(version: string): readonly number[] {
  return /^(\d+)\.(\d+)/.exec(version)?.slice(1).map(Number) ?? [];
}

/** Kernels before this charge eBPF memory to RLIMIT_MEMLOCK, and return EPERM if that is too low. */
export const memcgAccountingSince = '5.11';

/** Why the kernel refused a request, by its answer and the known facts about kernel and process. */
export function explainRefusal(refusal: Refusal, needs: Needs, context: ProbeContext): Feature {
  const { errno: code } = refusal;
  const name = errnoName(code);
  const line = lastVerifierLine(refusal.log);
  const answer = line === undefined ? name : `${name} (${line})`;
  const { EPERM, EACCES } = constants.errno;
  // If the verifier has logged something, EACCES is about the program, not about the process.
  const aboutPrivileges = (code === EPERM || code === EACCES) && line === undefined;

  if (aboutPrivileges) {
    const missing = missingCapabilities(context.capabilities, needs.capabilities);
    if (missing.length > 0) {
      return unavailable('missing_capability', `${name}: needs ${listed(missing)}.`);
    }
    if (context.inUserNamespace) {
      const names = listed(needs.capabilities);
      return unavailable('missing_capability', `${name}: ${names} must be held outside the user namespace.`);
    }
    if (!isAtLeast(context.release, memcgAccountingSince)) {
      return unavailable(
        'memlock_limit',
        `${name}: kernels before ${memcgAccountingSince} return this when RLIMIT_MEMLOCK is too low.`,
      );
    }
  }
  // The verifier's message about an unknown helper, in 6.1 and in 6.12.
  const withoutHelper = line !== undefined && /unknown func|cannot use helper/.test(line);
  if (context.lockdown === 'confidentiality' && (code === EPERM || withoutHelper)) {
    return unavailable('lockdown', `${answer}: the kernel is locked down (confidentiality).`);
  }
  if (!isAtLeast(context.release, needs.since)) {
    return unavailable(
      'not_in_kernel',
      `${answer}: it requires Linux ${needs.since}, this is ${context.release}.`,
    );
  }
  if (needs.builtWith !== undefined && context.hasFunction(needs.builtWith) === false) {
    return unavailable(
      'not_in_kernel',
      `${answer}: this kernel was built without it (no ${needs.builtWith}).`,
    );
  }
  const allowed = aboutPrivileges ? ' although the process has the required capabilities' : '';
  return unavailable('refused', `The kernel returns ${answer}${allowed}.`);
}
