/**
 * Programs that are attached individually, each by a link: to kernel functions, tracepoints and functions in user programs.
 */
import { renameSync } from 'node:fs';
import { join } from 'node:path';

import type { Descriptor } from '../../../../lib/ebpf/bpf-call.ts';
import { composeGated, type Gate } from '../compose/compose.ts';
import { AT_FDCWD, openat2, openFlags } from '../../../../lib/ebpf/libc.ts';
import { attachKprobe } from '../link/kprobe.ts';
import { attachTracepoint } from '../link/tracepoint.ts';
import { attachTracing } from '../link/tracing.ts';
import { attachUprobe } from '../link/uprobe.ts';
import { loadComposition } from '../compose/load-composition.ts';
import { openPin, pin, unpin } from '../pins/pin.ts';
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
  for (const { program, record } of loaded) {
    const { attach } = program;
    if (attach.type === 'xdp' || attach.type === 'tc' || attach.type === 'tcx') continue;
    verdicts.attempt([program], () => {
      const directory = pins.program(record);
      const attachKey = JSON.stringify(attach, (_, value: unknown) =>
        typeof value === 'bigint' ? String(value) : value,
      );
      using there = record.attachKey === attachKey ? openPin(join(directory, 'link')) : undefined;
      if (there === undefined) {
        using own = openProgram(join(directory, 'program'), record.programId);
        if (own === undefined)
          throw new ProgramFailure('attach', 'Its pin is gone. The program is loaded again.', true);
        using link = attachProbe(own, attach, { pins, records, record, hostRoot });
        unpin(join(directory, 'link-new'));
        pin(link.fd, join(directory, 'link-new'));
        renameSync(join(directory, 'link-new'), join(directory, 'link'));
        programs.remember({ ...record, attachKey });
      }
      verdicts.loaded(program, record.programId, []);
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
  attach: Exclude<Attach, { type: 'tc' | 'tcx' | 'xdp' }>,
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
      return attachTracepoint(program, attach.tracepoint);
    case 'uprobe':
    case 'uretprobe':
      return attach.container === undefined
        ? attachOnHost(program, attach, context)
        : attachInContainer(attach, attach.container, context);
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
