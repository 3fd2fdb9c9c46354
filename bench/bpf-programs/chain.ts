/**
 * The cost of a chain for each packet: one composed program, as the guard loads it, next to programs that
 * call each other by tail calls, each with the same members.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import {
  createPerCpuArray,
  createProgramArray,
  type Descriptor,
  setProgram,
} from '../../lib/ebpf/bpf-call.ts';
import { composeChain, type Member } from '../../guards/bpf-programs/kernel/compose/compose.ts';
import { Instructions } from '../../lib/ebpf/instructions.ts';
import { loadComposition } from '../../guards/bpf-programs/kernel/compose/load-composition.ts';
import { BpfObject } from '../../lib/ebpf/object.ts';
import { done, granted } from '../../lib/ebpf/refusal.ts';
import type { PartOptions, Report, ReportRow, Verdict } from '../report.ts';
import { testRun } from './test-run.ts';

const counts = [1, 2, 5, 10, 30] as const;
const REPEAT = 200_000;
/** As the guard does it: the kernel takes 64 maps in one program, and each of `count` has three. */
const SEGMENT = 20;
const XDP_PASS = 2;
const PROCEED = (1 << XDP_PASS) | (1 << 31);
const object = join(import.meta.dirname, '../../guards/bpf-programs/kernel/fixtures/count.bpf.o');
const load = { type: 6, expectedAttachType: 37, gpl: true } as const;

/** For each member over the program alone. */
const MAX_ADDED_NS = 10;
const MAX_OF_TAIL_CALLS = 0.9;

/** Members of a chain, and the first of them by itself. */
interface Members extends Disposable {
  readonly alone: Pick<Descriptor, 'fd'>;
  readonly all: readonly Omit<Member, 'slot'>[];
}

/** @throws {KernelRefusal} where the kernel loads no XDP programs; {RampartError} without libbpf. */
export function chain(options: PartOptions): Promise<Report> {
  const rows: ReportRow[] = [];
  const verdicts: Verdict[] = [];
  const kinds: Readonly<Record<string, (count: number) => Members>> = { pass: passing, count: counting };
  for (const [kind, make] of Object.entries(kinds)) {
    for (const count of counts) {
      options.signal.throwIfAborted();
      options.progress(`chain: ${kind}, ${count}`);
      const [alone, composed, uncounted, tailCalls] = measure(make, count, options);
      const added = (composed - alone) / count;
      rows.push({
        label: `${kind} x ${count}`,
        cells: {
          alone: `${alone} ns`,
          composed: `${composed} ns`,
          'not counting runs': `${uncounted} ns`,
          'tail calls': `${tailCalls} ns`,
          'of tail calls': (composed / tailCalls).toFixed(2),
          'each member': `${added.toFixed(1)} ns`,
        },
        values: { aloneNs: alone, composedNs: composed, uncountedNs: uncounted, tailCallsNs: tailCalls },
      });
      if (kind === 'pass' && count === 30)
        verdicts.push({
          target: `at most +${MAX_ADDED_NS} ns for each of 30 members over the program alone`,
          measured: `${added.toFixed(1)} ns`,
          met: added <= MAX_ADDED_NS,
        });
      if (count === 10)
        verdicts.push({
          target: `ten ${kind}: at most ${MAX_OF_TAIL_CALLS} of tail calls`,
          measured: (composed / tailCalls).toFixed(2),
          met: composed <= tailCalls * MAX_OF_TAIL_CALLS,
        });
    }
  }
  return Promise.resolve({
    title: 'ns for each packet through a chain (BPF_PROG_TEST_RUN)',
    columns: ['alone', 'composed', 'not counting runs', 'tail calls', 'of tail calls', 'each member'],
    rows,
    verdicts,
    notes: [
      `the best of ${options.rounds} rounds, taken in turn`,
      "pass: r0 = XDP_PASS; exit. count: looks at the ethertype and counts in a map, as the guard's tests do",
      'composed and tail calls both count the runs of each member, for `rampart bpf stats`',
      'each member: over the program alone; for count, with its own work',
    ],
  });
}

function measure(
  make: (count: number) => Members,
  count: number,
  { rounds, shrink }: PartOptions,
): readonly [alone: number, composed: number, uncounted: number, tailCalls: number] {
  using stack = new DisposableStack();
  const members = stack.use(make(count));
  const runs = stack.use(granted('map of runs', createPerCpuArray(512, 1, 'bench_runs')));
  const slotted = members.all.map((member, slot) => ({ ...member, slot }));
  const inSegments = (size: number, runsFd?: number): Descriptor =>
    segmented(
      stack,
      Array.from({ length: Math.ceil(count / size) }, (_, at) => slotted.slice(at * size, (at + 1) * size)),
      runsFd,
    );
  const programs = [members.alone, inSegments(SEGMENT, runs.fd), inSegments(SEGMENT), inSegments(1, runs.fd)];
  const best = programs.map(() => Number.POSITIVE_INFINITY);
  for (let round = 0; round < rounds; round++) {
    programs.forEach((program, at) => {
      const { result, nsPerRun } = testRun(program, Math.max(1, Math.ceil(REPEAT / shrink)));
      if (result !== XDP_PASS) throw new Error(`the chain returned ${result}`);
      best[at] = Math.min(best[at] ?? 0, nsPerRun);
    });
  }
  return best as unknown as readonly [number, number, number, number];
}

/** Each segment one program, which goes on with the next one by a tail call. */
function segmented(
  stack: DisposableStack,
  segments: readonly (readonly Member[])[],
  runsFd: number | undefined,
): Descriptor {
  const array = stack.use(granted('array of programs', createProgramArray(segments.length, 'bench_next')));
  const programs = segments.map((members, at) => {
    const next = at + 1 < segments.length ? { arrayFd: array.fd, index: at + 1 } : undefined;
    const chained = composeChain('xdp', members, { ...(runsFd !== undefined && { runsFd }), next });
    const program = stack.use(loadComposition(chained, { ...load, name: 'bench' }));
    done('array of programs', setProgram(array, at, program));
    return program;
  });
  const [first] = programs;
  if (first === undefined) throw new RangeError('a chain has at least one member');
  return first;
}

/** As little as a program can do. */
function passing(count: number): Members {
  const instructions = Instructions.of([{ code: 0xb7, to: 0, immediate: XDP_PASS }, { code: 0x95 }]);
  const member = { name: 'pass', instructions, proceedOn: PROCEED };
  const types = composeChain('xdp', []).types;
  const alone = loadComposition(
    { instructions, types, functions: [{ at: 0, typeId: 3 }] },
    { ...load, name: 'bench_pass' },
  );
  return {
    alone,
    all: Array.from({ length: count }, () => member),
    [Symbol.dispose]: () => alone[Symbol.dispose](),
  };
}

/** A program with maps of its own, as many times. */
function counting(count: number): Members {
  const objects = Array.from({ length: count }, () => BpfObject.open(readFileSync(object), 'count'));
  const programs = objects.map((opened) => {
    for (const program of opened.programs()) program.autoload = program.name === 'xdp_count';
    opened.load();
    return opened.program('xdp_count');
  });
  const [alone] = programs;
  if (alone === undefined) throw new RangeError('a chain has at least one member');
  return {
    alone: { fd: alone.fd },
    all: programs.map((program) => ({
      name: 'count',
      instructions: program.instructions(),
      proceedOn: PROCEED,
    })),
    [Symbol.dispose]: () => {
      for (const opened of objects) opened[Symbol.dispose]();
    },
  };
}
