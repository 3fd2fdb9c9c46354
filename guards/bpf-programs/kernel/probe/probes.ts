/** Programs that are attached individually, each by a link, to functions of the kernel and to tracepoints. Uprobes are in uprobes.ts. */
import { renameSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';

import type { Descriptor } from '../../../../lib/ebpf/bpf-call.ts';
import { attachKprobe } from '../link/kprobe.ts';
import { attachTracepoint, recordFields } from '../link/tracepoint.ts';
import { attachTracing } from '../link/tracing.ts';
import { btfById, programInfo } from '../info.ts';
import { openPin, pin, unpin } from '../pins/pin.ts';
import { KernelRefusal } from '../../../../lib/ebpf/refusal.ts';
import type { Attach } from '../desired.ts';
import { ProgramFailure } from '../failure.ts';
import { openProgram, type Pins } from '../pins/pins.ts';
import type { LoadedProgram } from '../load/loaded-program.ts';
import type { Programs } from '../load/programs.ts';
import type { ProgramRecord, Records } from '../records.ts';
import { attachKeyOf } from './attach-key.ts';
import { readsBeyond } from './record-reads.ts';
import type { Verdicts } from '../verdicts.ts';

/** Attaches programs that are not attached where they should be. The new link is attached before the old one is detached. */
export function settleProbes(
  programs: Programs,
  pins: Pins,
  records: Records,
  loaded: readonly LoadedProgram[],
  verdicts: Verdicts,
): void {
  for (const one of loaded) {
    const { program, record: asked } = one;
    const { attach } = program;
    if (!isOwn(attach)) continue;
    if (attach.type === 'nowhere') {
      verdicts.loaded(program, asked.programId, []);
      continue;
    }
    verdicts.attach(one, (record) => {
      const directory = pins.program(record);
      const attachKey = attachKeyOf(attach);
      using before = record.attachKey === '' ? undefined : openPin(join(directory, 'link'));
      // A previous version of another type, such as kretprobe, stays attached.
      if (before !== undefined && (record.attachKey === attachKey || record.type !== attach.type)) return [];
      try {
        using own = openProgram(join(directory, 'program'), record.programId);
        if (own === undefined)
          throw new ProgramFailure('attach', 'Its pin is gone. The program is loaded again.', true);
        using link = attachProbe(own, attach, { records, record });
        unpin(join(directory, 'link-new'));
        pin(link.fd, join(directory, 'link-new'));
        renameSync(join(directory, 'link-new'), join(directory, 'link'));
        programs.remember({ ...record, attachKey });
      } catch (error) {
        if (before === undefined) throw error;
        verdicts.keep(program, record, error);
      }
      return [];
    });
  }
}

interface ProbeContext {
  readonly records: Records;
  readonly record: ProgramRecord;
}

type Own = Exclude<Attach, { type: 'tc' | 'tcx' | 'uprobe' | 'uretprobe' | 'xdp' }>;

function isOwn(attach: Attach): attach is Own {
  return !['tc', 'tcx', 'uprobe', 'uretprobe', 'xdp'].includes(attach.type);
}

function attachProbe(
  program: Descriptor,
  attach: Exclude<Own, { type: 'nowhere' }>,
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
