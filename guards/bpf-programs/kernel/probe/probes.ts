/**
 * Programs that are attached individually, each by a link: to kernel functions, tracepoints and functions in user programs.
 */
import { renameSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';

import type { Descriptor } from '../../../../lib/ebpf/bpf-call.ts';
import { composeGated, type Gate } from '../compose/compose.ts';
import { AT_FDCWD, openat2, openFlags } from '../../../../lib/ebpf/libc.ts';
import { attachKprobe } from '../link/kprobe.ts';
import { attachTracepoint, recordFields } from '../link/tracepoint.ts';
import { attachTracing } from '../link/tracing.ts';
import { attachUprobe } from '../link/uprobe.ts';
import { loadComposition } from '../compose/load-composition.ts';
import { btfById, programInfo } from '../info.ts';
import { openPin, pin, unpin } from '../pins/pin.ts';
import { KernelRefusal } from '../../../../lib/ebpf/refusal.ts';
import { attachPoint } from '../attach-point.ts';
import { openContainer, readProcess } from '../place/container.ts';
import type { Attach } from '../desired.ts';
import { ProgramFailure } from '../failure.ts';
import { gateOf } from '../gate.ts';
import { OpenMaps } from '../load/open-maps.ts';
import { openProgram, type Pins } from '../pins/pins.ts';
import { programTypes } from '../load/program-types.ts';
import type { LoadedProgram, Programs } from '../load/programs.ts';
import type { ProgramRecord, Records } from '../records.ts';
import { readsBeyond } from './record-reads.ts';
import { openTarget, probeOffset } from './uprobe-target.ts';
import type { Verdicts } from '../verdicts.ts';

type Uprobe = Extract<Attach, { type: 'uprobe' | 'uretprobe' }>;

/** Attaches those that are not attached where they belong. The new one is attached before the old one is detached. */
export function settleProbes(
  programs: Programs,
  pins: Pins,
  records: Records,
  loaded: readonly LoadedProgram[],
  verdicts: Verdicts,
  hostRoot: string,
): void {
  for (const one of loaded) {
    const { program, record: asked } = one;
    const { attach } = program;
    if (attach.type === 'xdp' || attach.type === 'tc' || attach.type === 'tcx') continue;
    if (attach.type === 'nowhere') {
      verdicts.loaded(program, asked.programId, []);
      continue;
    }
    const isInContainer = 'container' in attach && attach.container !== undefined;
    verdicts.attach(one, (record) => {
      const directory = pins.program(record);
      const attachKey = JSON.stringify(attach, (_, value: unknown) =>
        typeof value === 'bigint' ? String(value) : value,
      );
      using before = record.attachKey === '' ? undefined : openPin(join(directory, 'link'));
      // A version before of another type, such as kretprobe, stays where it is.
      if (before !== undefined && (record.attachKey === attachKey || record.type !== attach.type)) return [];
      try {
        using own = openProgram(join(directory, 'program'), record.programId);
        if (own === undefined)
          throw new ProgramFailure('attach', 'Its pin is gone. The program is loaded again.', true);
        using link = attachProbe(own, attach, { pins, records, record, hostRoot });
        unpin(join(directory, 'link-new'));
        pin(link.fd, join(directory, 'link-new'));
        renameSync(join(directory, 'link-new'), join(directory, 'link'));
        programs.remember({ ...record, attachKey });
      } catch (error) {
        // What it is attached to in a container may be gone with it.
        if (before === undefined || isInContainer) throw error;
        verdicts.keep(program, record, error);
      }
      return [];
    });
  }
}

interface ProbeContext {
  readonly pins: Pins;
  readonly records: Records;
  readonly record: ProgramRecord;
  readonly hostRoot: string;
}

function attachProbe(
  program: Descriptor,
  attach: Exclude<Attach, { type: 'nowhere' | 'tc' | 'tcx' | 'xdp' }>,
  context: ProbeContext,
): Descriptor {
  switch (attach.type) {
    case 'kprobe':
    case 'kretprobe':
      if (attach.type === 'kretprobe' && attach.offset !== 0n)
        throw new ProgramFailure(
          'attach',
          'A kretprobe cannot have an offset: a function returns as a whole.',
        );
      return attachKprobe(program, { ...attach, atReturn: attach.type === 'kretprobe' });
    case 'fentry':
    case 'fexit':
      return attachTracing(program, attach.functionName);
    case 'tracepoint':
      return attachToTracepoint(program, attach.tracepoint, context);
    case 'uprobe':
    case 'uretprobe':
      return attach.container === undefined
        ? attachOnHost(program, attach, context)
        : attachInContainer(attach, attach.container, context);
  }
}

function attachToTracepoint(
  program: Descriptor,
  tracepoint: string,
  { records, record }: ProbeContext,
): Descriptor {
  try {
    return attachTracepoint(program, tracepoint);
  } catch (error) {
    if (!(error instanceof KernelRefusal) || error.errno !== constants.errno.EACCES) throw error;
    const { btfId } = programInfo(program.fd);
    const types = btfId === 0 ? undefined : btfById(btfId);
    const why = readsBeyond(
      records.instructions(record),
      recordFields(tracepoint),
      record.functionName,
      types,
    );
    if (why === undefined) throw error;
    throw new ProgramFailure('attach', `${error.message}. ${why}`, false, error);
  }
}

function attachOnHost(program: Descriptor, attach: Uprobe, { hostRoot }: ProbeContext): Descriptor {
  using root = openat2(AT_FDCWD, hostRoot, { flags: openFlags.PATH | openFlags.DIRECTORY });
  const target = openTarget(root, attach.target, '');
  using file = target.file;
  return attachUprobe(
    program,
    {
      path: `/proc/self/fd/${file.number}`,
      fileOffset: probeOffset(target, attach.functionName, attach.offset),
      atReturn: attach.type === 'uretprobe',
      pid: attach.pid,
    },
    attachPoint(attach),
  );
}

function attachInContainer(
  attach: Uprobe,
  container: NonNullable<Uprobe['container']>,
  { pins, records, record }: ProbeContext,
): Descriptor {
  using process = openContainer(container);
  if (attach.pid !== undefined) openContainer({ ...container, pid: attach.pid })[Symbol.dispose]();
  const gate = gateOf(process, container);
  using root = openat2(process, 'root', { flags: openFlags.PATH | openFlags.DIRECTORY });
  const target = openTarget(root, attach.target, readProcess(process, 'maps'));
  using file = target.file;
  const fileOffset = probeOffset(target, attach.functionName, attach.offset);
  using gated = loadGated(gate, pins, records, record);
  const gatedPath = join(pins.program(record), 'gated');
  unpin(gatedPath);
  pin(gated.fd, gatedPath);
  return attachUprobe(
    gated,
    {
      path: `/proc/self/fd/${file.number}`,
      fileOffset,
      atReturn: attach.type === 'uretprobe',
      pid: attach.pid,
    },
    attachPoint(attach),
  );
}

function loadGated(gate: Gate, pins: Pins, records: Records, record: ProgramRecord): Descriptor {
  using maps = new OpenMaps(pins);
  const instructions = maps.resolve(record, records);
  return loadComposition(composeGated(gate, { name: record.functionName, instructions }), {
    ...programTypes[record.type],
    name: 'rampart_gated',
    gpl: record.gpl,
  });
}
