/** Finds out what this process may do with eBPF on this kernel, and why it may not do the rest. */
import { release } from 'node:os';

import { RampartError } from '../../errors/errors.ts';
import { createMap, Descriptor } from '../bpf-call.ts';
import { effectiveCapabilities, inUserNamespace } from './capabilities.ts';
import { attachProbes } from './attach.ts';
import { type BtfOrReason, probeProgram, probeReadKernel } from './programs.ts';
import {
  available,
  explainRefusal,
  isAtLeast,
  memcgAccountingSince,
  type ProbeContext,
  unavailable,
} from './reasons.ts';
import {
  activeLsms,
  cgroupVersions,
  jitEnabled,
  libbpfVersion,
  liftMemlockLimit,
  lockdownMode,
  unprivilegedBpfDisabled,
} from './kernel-facts.ts';
import { VmlinuxBtf, vmlinuxBtfSizeBytes } from './vmlinux-btf.ts';
import { type AttachKind, attachKinds, type Feature, type KernelFeatures, programKinds } from './feature.ts';

const BPF_MAP_TYPE_RINGBUF = 27;
/** The size of a ring buffer has to be a multiple of the page size, which this is on every architecture. */
const smallestRingSizeBytes = 64 * 1024;

/**
 * Probes the kernel by loading and attaching minimal programs, all of which are removed before it returns. Never fails because
 * of a missing privilege: the results say what is missing.
 *
 * Programs are attached only where they have no effect (an empty program on tracepoints, on test functions, on this process's
 * own entry point). Interfaces, cgroups and namespaces are not touched. The kernel may load modules that an attach kind needs
 * (sch_ingress for `tc`).
 *
 * All kinds together take some hundred milliseconds, mostly the kernel's grace periods after detaching `tracepoint`, `uprobe`
 * and `uretprobe`; the others take a tenth of that.
 *
 * @param attach - The attach kinds to probe; the result for the others is `not_probed`.
 */
export function probeFeatures(attach: readonly AttachKind[] = attachKinds): KernelFeatures {
  const kernel = release();
  const capabilities = effectiveCapabilities();
  const inOwnUserNamespace = inUserNamespace();
  const lsms = activeLsms();
  const lockdown = lockdownMode(lsms);
  if (!isAtLeast(kernel, memcgAccountingSince)) liftMemlockLimit();

  const btf = openBtf();
  using _btf = 'available' in btf ? undefined : btf;
  const context: ProbeContext = {
    release: kernel,
    capabilities,
    inUserNamespace: inOwnUserNamespace,
    lockdown,
    lsms,
    hasFunction: (name) => ('available' in btf ? undefined : btf.findFunction(name) !== undefined),
  };
  return {
    release: kernel,
    arch: process.arch,
    libbpf: libbpfVersion(),
    btf: 'available' in btf ? btf : available,
    btfSizeBytes: vmlinuxBtfSizeBytes(),
    jit: jitEnabled(),
    unprivilegedBpfDisabled: unprivilegedBpfDisabled(),
    lockdown,
    lsms,
    capabilities,
    inUserNamespace: inOwnUserNamespace,
    cgroupVersions: cgroupVersions(),
    ringBuffer: probeRingBuffer(context),
    probeReadKernel: probeReadKernel(context),
    programs: answers(programKinds, (kind) => probeProgram(kind, btf, context)),
    attach: answers(attachKinds, (kind) =>
      attach.includes(kind) ? attachProbes[kind](btf, context) : unavailable('not_probed', 'Not requested.'),
    ),
  };
}

function answers<K extends string>(kinds: readonly K[], probe: (kind: K) => Feature): Record<K, Feature> {
  return Object.fromEntries(kinds.map((kind) => [kind, probe(kind)])) as Record<K, Feature>;
}

/** The kernel's BTF, or the result for all probes that need it. */
function openBtf(): BtfOrReason {
  if (vmlinuxBtfSizeBytes() === undefined) {
    return unavailable('no_btf', 'There is no /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF).');
  }
  try {
    return new VmlinuxBtf();
  } catch (error) {
    if (!(error instanceof RampartError)) throw error;
    return unavailable('inconclusive', `The kernel's BTF cannot be read: ${error.message}`);
  }
}

function probeRingBuffer(context: ProbeContext): Feature {
  const outcome = createMap(BPF_MAP_TYPE_RINGBUF, smallestRingSizeBytes);
  if (!(outcome instanceof Descriptor)) {
    return explainRefusal(outcome, { since: '5.8', capabilities: ['CAP_BPF'] }, context);
  }
  outcome[Symbol.dispose]();
  return available;
}
