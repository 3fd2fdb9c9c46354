/**
 * Probes of the ways to attach. Where attaching has no effect (tracepoints with an empty program, functions that exist
 * to be probed), the probe really attaches and detaches. Where it would affect the machine (network interfaces, cgroups,
 * namespaces), the probe names an impossible target, and the kernel's errno shows whether it supports this way.
 */
import { readFileSync } from 'node:fs';
import { constants } from 'node:os';
import {
  createKprobeMultiLink,
  createLink,
  Descriptor,
  openPerfEvent,
  openRawTracepoint,
  type Outcome,
  outcomeOf,
  type PerfEventRequest,
  setPerfEventProgram,
} from '../bpf-call.ts';
import { entryPointOffset } from './elf.ts';
import { attachTypes, type BtfOrReason, loadMinimal, testFunction } from './programs.ts';
import { available, explainRefusal, type Needs, type ProbeContext, unavailable } from './reasons.ts';
import type { AttachKind, Feature, ProgramKind } from './feature.ts';
import { errno, libc } from '../ffi.ts';

const { EBADF, EEXIST, EINVAL, ENODEV, ENOENT, EOPNOTSUPP, EPERM } = constants.errno;

const perfmon = { capabilities: ['CAP_BPF', 'CAP_PERFMON'] } as const;
const netAdmin = { capabilities: ['CAP_BPF', 'CAP_NET_ADMIN'] } as const;
/** Recent kernels open uprobe events only with CAP_SYS_ADMIN (kernel/events/core.c, perf_uprobe_event_init). */
const userProbe = { capabilities: ['CAP_BPF', 'CAP_PERFMON', 'CAP_SYS_ADMIN'] } as const;

/** Requirements of each kind. `since` is the first kernel with the way to attach that the probe uses. */
export const attachNeeds: Readonly<Record<AttachKind, Needs>> = {
  raw_tracepoint: { ...perfmon, since: '4.17' },
  tracepoint: { ...perfmon, since: '4.7' },
  kprobe: { ...perfmon, since: '4.17' },
  kretprobe: { ...perfmon, since: '4.17' },
  kprobe_multi: { ...perfmon, since: '5.18' },
  uprobe: { ...userProbe, since: '4.17' },
  uretprobe: { ...userProbe, since: '4.17' },
  fentry: { ...perfmon, since: '5.5' },
  fexit: { ...perfmon, since: '5.5' },
  lsm: { ...perfmon, since: '5.7' },
  xdp: { ...netAdmin, since: '5.9' },
  tcx: { ...netAdmin, since: '6.6' },
  tc: { ...netAdmin, since: '4.16' },
  cgroup: { ...netAdmin, since: '5.7' },
  netns: { ...netAdmin, since: '5.9' },
  perf_event: { ...perfmon, since: '4.9' },
  freplace: { capabilities: ['CAP_BPF', 'CAP_PERFMON', 'CAP_NET_ADMIN'], since: '5.6' },
};

const PERF_TYPE_SOFTWARE = 1;
const PERF_TYPE_TRACEPOINT = 2;
const PERF_COUNT_SW_CPU_CLOCK = 0n;
const XDP_FLAGS_HW_MODE = 8;
/** Interface index of loopback, the first interface of every network namespace (include/net/flow.h, LOOPBACK_IFINDEX). */
const loopbackIndex = 1;
/** No interface has this index, and no file has the descriptor `impossibleFd`. */
const impossibleIndex = 2 ** 31 - 1;
const impossibleFd = 2 ** 32 - 1;

/** The raw tracepoints that the sensor requires. */
const rawTracepoints = ['sys_enter', 'sys_exit', 'sched_process_exec'] as const;

/** All processes, on the first CPU: libbpf opens events like this to attach system-wide. */
const everywhere = { pid: -1, cpu: 0 } as const;
const onlyHere = { pid: 0, cpu: -1 } as const;

/** The probes by kind; each loads its own program and leaves nothing behind. */
export const attachProbes: Readonly<
  Record<AttachKind, (btf: BtfOrReason, context: ProbeContext) => Feature>
> = {
  raw_tracepoint: (btf, context) =>
    withProgram('raw_tracepoint', btf, context, (program) => {
      for (const name of rawTracepoints) {
        const answer = settle(openRawTracepoint(program, name), attachNeeds.raw_tracepoint, context);
        if (!answer.available) return { ...answer, detail: `${name}: ${answer.detail}` };
      }
      return available;
    }),
  tracepoint: (btf, context) =>
    withProgram('tracepoint', btf, context, (program) => {
      const id = tracepointId('sched/sched_process_exec');
      if (typeof id !== 'bigint') return id;
      const event = { type: PERF_TYPE_TRACEPOINT, config: id, ...everywhere };
      return perfEvent(event, program, attachNeeds.tracepoint, context);
    }),
  kprobe: (btf, context) => dynamicProbe('kprobe', false, btf, context),
  kretprobe: (btf, context) => dynamicProbe('kprobe', true, btf, context),
  kprobe_multi: (btf, context) => {
    const expectedAttachType = attachTypes.TRACE_KPROBE_MULTI;
    const attach = (program: Descriptor) => {
      const outcome = createKprobeMultiLink(program, expectedAttachType, testFunction);
      if (!(outcome instanceof Descriptor) && outcome.errno === EOPNOTSUPP) {
        return unavailable('not_in_kernel', 'EOPNOTSUPP: this kernel was built without CONFIG_FPROBE.');
      }
      return settle(outcome, attachNeeds.kprobe_multi, context);
    };
    return withProgram('kprobe', btf, context, attach, { expectedAttachType });
  },
  uprobe: (btf, context) => dynamicProbe('uprobe', false, btf, context),
  uretprobe: (btf, context) => dynamicProbe('uprobe', true, btf, context),
  fentry: (btf, context) => toItsFunction('fentry', attachNeeds.fentry, btf, context),
  fexit: (btf, context) => toItsFunction('fexit', attachNeeds.fexit, btf, context),
  lsm: (btf, context) => {
    const answer = toItsFunction('lsm', attachNeeds.lsm, btf, context);
    if (!answer.available || context.lsms?.includes('bpf')) return answer;
    return context.lsms === undefined
      ? unavailable('inconclusive', 'It attaches, but no list of active security modules can be read.')
      : unavailable(
          'lsm_not_enabled',
          'It attaches, but never runs: "bpf" is not in the kernel\'s list lsm=.',
        );
  },
  // For an unknown interface, the kernel returns EINVAL, as for an unsupported request. So this requests hardware mode on
  // loopback, which has no hardware offload: a kernel with XDP links returns EOPNOTSUPP (net/core/dev.c, dev_xdp_attach).
  xdp: (btf, context) =>
    withProgram('xdp', btf, context, (program) => {
      const outcome = createLink(program, loopbackIndex, attachTypes.XDP, XDP_FLAGS_HW_MODE);
      return expectErrno(outcome, EOPNOTSUPP, attachNeeds.xdp, context);
    }),
  tcx: (btf, context) =>
    withProgram('sched_cls', btf, context, (program) => {
      const outcome = createLink(program, impossibleIndex, attachTypes.TCX_INGRESS);
      return expectErrno(outcome, ENODEV, attachNeeds.tcx, context);
    }),
  tc: (btf, context) =>
    withProgram('sched_cls', btf, context, () => {
      const code = askForClsact(loopbackIndex);
      if (code === EINVAL || code === EEXIST) return available;
      if (code === ENOENT) {
        return unavailable('not_in_kernel', 'ENOENT: there is no clsact qdisc (CONFIG_NET_SCH_INGRESS).');
      }
      // rtnetlink, unlike bpf(2), does not accept CAP_SYS_ADMIN in place of CAP_NET_ADMIN.
      if (code === EPERM && !context.capabilities.includes('CAP_NET_ADMIN')) {
        return unavailable('missing_capability', 'EPERM: needs CAP_NET_ADMIN.');
      }
      return explainRefusal({ errno: code, log: '' }, attachNeeds.tc, context);
    }),
  cgroup: (btf, context) =>
    withProgram('cgroup_sock_addr', btf, context, (program) => {
      const outcome = createLink(program, impossibleFd, attachTypes.CGROUP_INET4_CONNECT);
      return expectErrno(outcome, EBADF, attachNeeds.cgroup, context);
    }),
  netns: (btf, context) =>
    withProgram('sk_lookup', btf, context, (program) => {
      const outcome = createLink(program, impossibleFd, attachTypes.SK_LOOKUP);
      return expectErrno(outcome, EBADF, attachNeeds.netns, context);
    }),
  perf_event: (btf, context) =>
    withProgram('perf_event', btf, context, (program) => {
      const clock = {
        type: PERF_TYPE_SOFTWARE,
        config: PERF_COUNT_SW_CPU_CLOCK,
        samplePeriod: 1_000_000_000n,
      };
      return perfEvent({ ...clock, ...onlyHere }, program, attachNeeds.perf_event, context);
    }),
  freplace: (btf, context) => toItsFunction('ext', attachNeeds.freplace, btf, context),
};

/** Loads a program for `use` and unloads it afterwards. If it cannot be loaded, the result says why. */
function withProgram(
  kind: ProgramKind,
  btf: BtfOrReason,
  context: ProbeContext,
  use: (program: Descriptor) => Feature,
  overrides: { readonly expectedAttachType?: number } = {},
): Feature {
  const loaded = loadMinimal(kind, btf, context, overrides);
  if (!(loaded instanceof Descriptor)) return loaded;
  using program = loaded;
  return use(program);
}

/** The result for an outcome; detaches if the program was attached. */
function settle(outcome: Outcome, needs: Needs, context: ProbeContext): Feature {
  if (!(outcome instanceof Descriptor)) return explainRefusal(outcome, needs, context);
  outcome[Symbol.dispose]();
  return available;
}

/** For requests with an impossible target. @param known - The errno of a kernel that supports this way to attach. */
function expectErrno(outcome: Outcome, known: number, needs: Needs, context: ProbeContext): Feature {
  if (!(outcome instanceof Descriptor) && outcome.errno === known) return available;
  return settle(outcome, needs, context);
}

/** Attaches a fentry, fexit, LSM or freplace program, whose target was set when it was loaded. */
function toItsFunction(kind: ProgramKind, needs: Needs, btf: BtfOrReason, context: ProbeContext): Feature {
  return withProgram(kind, btf, context, (program) =>
    settle(openRawTracepoint(program, null), needs, context),
  );
}

function perfEvent(
  request: PerfEventRequest,
  program: Descriptor,
  needs: Needs,
  context: ProbeContext,
): Feature {
  const opened = openPerfEvent(request);
  if (!(opened instanceof Descriptor)) return explainRefusal(opened, needs, context);
  using event = opened;
  const refusal = setPerfEventProgram(event, program);
  return refusal === undefined ? available : explainRefusal(refusal, needs, context);
}

const eventSources = '/sys/bus/event_source/devices';

/**
 * kprobes and uprobes through their perf event sources, since 4.17: these need no tracefs, and closing the file
 * descriptor removes the probe. The uprobe is on this process's own entry point, which has run once and never runs
 * again.
 */
function dynamicProbe(
  source: 'kprobe' | 'uprobe',
  atReturn: boolean,
  btf: BtfOrReason,
  context: ProbeContext,
): Feature {
  const type = readNumber(`${eventSources}/${source}/type`);
  if (type === undefined) {
    return readNumber(`${eventSources}/software/type`) === undefined
      ? unavailable('inconclusive', `${eventSources} cannot be read; is /sys mounted?`)
      : unavailable(
          `no_${source}s`,
          `There is no ${eventSources}/${source}: the kernel was built without ${source}s.`,
        );
  }
  const returnBit = BigInt(readNumber(`${eventSources}/${source}/format/retprobe`) ?? 0);
  const config = atReturn ? 1n << returnBit : 0n;
  return withProgram('kprobe', btf, context, (program) =>
    perfEvent(
      source === 'kprobe'
        ? { type, config, name: testFunction, ...everywhere }
        : {
            type,
            config,
            name: process.execPath,
            probeOffset: entryPointOffset(process.execPath),
            ...onlyHere,
          },
      program,
      attachNeeds[source],
      context,
    ),
  );
}

/** The first number in a small file of sysfs or tracefs ("6", "config:0"). */
function readNumber(path: string): number | undefined {
  try {
    const digits = /\d+/.exec(readFileSync(path, 'latin1'))?.[0];
    return digits === undefined ? undefined : Number(digits);
  } catch {
    return undefined;
  }
}

/** The ID of a tracepoint, which can only be read from tracefs; if that fails, why. */
function tracepointId(event: string): bigint | Feature {
  const failures: string[] = [];
  for (const root of ['/sys/kernel/tracing', '/sys/kernel/debug/tracing']) {
    try {
      return BigInt(readFileSync(`${root}/events/${event}/id`, 'latin1').trim());
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code ?? 'EPERM';
      failures.push(`${root}: ${code}`);
    }
  }
  return unavailable('no_tracefs', `No id of ${event} can be read (${failures.join(', ')}).`);
}

/** Constants for one request to the kernel's traffic control, in rtnetlink (rtnetlink(7)). */
const AF_NETLINK = 16;
const SOCK_RAW_CLOEXEC_NONBLOCK = 3 | 0x80000 | 0x800;
const NETLINK_ROUTE = 0;
const RTM_NEWQDISC = 36;
const NLMSG_ERROR = 2;
/** NLM_F_REQUEST | NLM_F_ACK | NLM_F_EXCL | NLM_F_CREATE. */
const flags = 1 | 4 | 0x200 | 0x400;
const TCA_KIND = 1;
const TCA_INGRESS_BLOCK = 13;
const TC_H_CLSACT = 0xfffffff1;
const clsactHandle = 0xffff0000;

/**
 * Requests a clsact qdisc in a way that no kernel grants: with ingress block 0, which is refused
 * (since 4.16) after the kind was looked up and before anything was created (net/sched/sch_api.c,
 * qdisc_create and qdisc_block_indexes_set). A kernel that has clsact as a module loads it.
 *
 * @returns the errno: EINVAL if clsact is known, EEXIST if the interface has such a qdisc,
 *   ENOENT if the kind is unknown.
 */
function askForClsact(interfaceIndex: number): number {
  const opened = outcomeOf(libc.socket(AF_NETLINK, SOCK_RAW_CLOEXEC_NONBLOCK, NETLINK_ROUTE));
  if (!(opened instanceof Descriptor)) return opened.errno;
  using socket = opened;
  const request = clsactRequest(interfaceIndex);
  if (libc.write(socket.fd, request, request.byteLength) < 0) return errno();
  // The kernel processes the request within write(), so the answer can be read at once.
  const answer = Buffer.alloc(4096);
  const length = libc.read(socket.fd, answer, answer.byteLength);
  if (length < 0) return errno();
  if (length < 20 || answer.readUInt16LE(4) !== NLMSG_ERROR) return constants.errno.EPROTO;
  return -answer.readInt32LE(16);
}

/** struct nlmsghdr, struct tcmsg and two attributes, each padded to four bytes. */
function clsactRequest(interfaceIndex: number): Uint8Array {
  const message = Buffer.alloc(16 + 20 + 12 + 8);
  message.writeUInt32LE(message.length, 0);
  message.writeUInt16LE(RTM_NEWQDISC, 4);
  message.writeUInt16LE(flags, 6);
  message.writeInt32LE(interfaceIndex, 20);
  message.writeUInt32LE(clsactHandle, 24);
  message.writeUInt32LE(TC_H_CLSACT, 28);
  const kind = 36;
  message.writeUInt16LE(4 + 'clsact\0'.length, kind);
  message.writeUInt16LE(TCA_KIND, kind + 2);
  message.write('clsact', kind + 4, 'latin1');
  const block = kind + 12;
  message.writeUInt16LE(8, block);
  message.writeUInt16LE(TCA_INGRESS_BLOCK, block + 2);
  return message;
}
