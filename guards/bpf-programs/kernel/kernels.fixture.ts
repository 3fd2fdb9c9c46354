/**
 * The features of this guard that kernels support: recorded by the probe on each of them, for the guide.
 * `node guards/bpf-programs/kernel/kernels.fixture.ts` prints what this kernel supports, as an entry of
 * `kernels.json`.
 */
import { release } from 'node:os';

import type { AttachType } from './desired.ts';
import recorded from './kernels.json' with { type: 'json' };
import { programTypes } from './load/program-types.ts';
import { Refusals } from './refusals.ts';
import type { FeatureReason } from '../../../lib/ebpf/features/feature.ts';

/** `yes`, or why not. */
export type Can = Readonly<Record<AttachType, FeatureReason | 'yes'>>;

export interface RecordedKernel {
  /** The name for people. */
  readonly name: string;
  /** Prefix of `uname -r`. */
  readonly release: string;
  readonly can: Can;
}

export const kernels = recorded as readonly RecordedKernel[];

/** Probes this kernel. */
export function kernelCan(): Can {
  const refusals = new Refusals();
  const types = Object.keys(programTypes).toSorted() as AttachType[];
  const answers = types.map((type) => {
    const answer = refusals.answer(type);
    return [type, answer.available ? 'yes' : answer.reason] as const;
  });
  return Object.fromEntries(answers) as Can;
}

if (import.meta.main) {
  const entry: RecordedKernel = { name: release(), release: release(), can: kernelCan() };
  process.stdout.write(`${JSON.stringify(entry)}\n`);
}
