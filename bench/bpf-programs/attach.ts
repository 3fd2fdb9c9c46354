/**
 * How long the kernel side takes: one program loaded and attached, a chain of ten changed, a hundred programs at once, and the same
 * asked for again when nothing changed.
 */
import { setTimeout as sleep } from 'node:timers/promises';

import { attachXdp, replaceProgram } from '../../guards/bpf-programs/kernel/link/xdp.ts';
import { BpfObject } from '../../lib/ebpf/object.ts';
import { findInterface } from '../../lib/netlink/interface.ts';
import { RouteSocket } from '../../lib/netlink/route.ts';
import type { DesiredProgram, Outcome } from '../../guards/bpf-programs/kernel/desired.ts';
import {
  bytecode,
  cable,
  desired,
  ip,
  Lab,
  ownNetwork,
  xdp,
} from '../../guards/bpf-programs/kernel/lab.fixture.ts';
import { median, type PartOptions, quantile, type Report, type ReportRow, type Verdict } from '../report.ts';

const INTERFACES = 10;
const REST_MS = 30;
const MAX_SWAP_MS = 15;
const MAX_ATTACH_MS = 30;
const MAX_HUNDRED_MS = 3_000;

/** @throws {Error} without root, or without ip(8). */
export async function attach({ rounds, shrink, signal, progress }: PartOptions): Promise<Report> {
  ownNetwork();
  for (let at = 0; at < INTERFACES; at++) cable(`in${at}`, `out${at}`);
  const times = Math.max(3, Math.ceil((rounds * 10) / shrink));
  await using lab = new Lab();
  const host = await lab.host();
  const timed = async (programs: readonly DesiredProgram[]): Promise<Took> => {
    // A grace period that the previous change began has to end first.
    await sleep(REST_MS, undefined, { signal });
    const [begin, cpu] = [performance.now(), process.cpuUsage()];
    const outcomes = await host.apply(programs);
    const took = { ms: performance.now() - begin, cpuMs: cpuMsSince(cpu) };
    for (const outcome of outcomes.values()) check(outcome);
    return took;
  };

  progress('attach: one program');
  const one: Took[] = [];
  for (let time = 0; time < times; time++) {
    one.push(await timed([desired(`one${time}`, xdp('in0'))]));
    await host.apply([]);
  }

  progress('attach: a chain of ten');
  const nine = Array.from({ length: 9 }, (_, at) => desired(`c${at}`, xdp('in0', 10 * at)));
  await host.apply(nine);
  const swaps: Took[] = [];
  const joins: Took[] = [];
  for (let time = 0; time < times; time++) {
    joins.push(await timed([...nine, desired(`j${time}`, xdp('in0', 5))]));
    // Loaded already: only its place changes.
    swaps.push(await timed([...nine, desired(`j${time}`, xdp('in0', 85))]));
  }
  await host.apply([]);

  progress('attach: a bare exchange');
  const [bare, bareAttached] = await bareChanges(times);

  progress('attach: a hundred programs');
  const hundred = Array.from({ length: 100 }, (_, at) => desired(`h${at}`, xdp(`in${at % INTERFACES}`, at)));
  const hundredAtOnce = await timed(hundred);
  const again: Took[] = [];
  for (let time = 0; time < times; time++) again.push(await timed(hundred));
  await host.apply([]);
  for (let at = 0; at < INTERFACES; at++) ip(`link del in${at}`);

  return {
    title: 'The kernel side of a change, with the bytecode at hand',
    columns: ['median', 'p99', 'CPU'],
    rows: [
      row('one program loaded and attached', one),
      row('the same by libbpf alone', bareAttached),
      row('one joins nine', joins),
      row('a chain of ten in another order', swaps),
      row('two loaded programs exchanged, alone', bare),
      row('a hundred on ten interfaces', [hundredAtOnce]),
      row('a hundred asked for again', again),
    ],
    verdicts: [
      verdict(
        'one program attached',
        quantile(
          one.map(({ ms }) => ms),
          0.99,
        ),
        MAX_ATTACH_MS,
        'p99',
      ),
      verdict('a chain of ten swapped', median(swaps.map(({ ms }) => ms)), MAX_SWAP_MS, 'median'),
      verdict('a hundred programs on ten interfaces', hundredAtOnce.ms, MAX_HUNDRED_MS, 'once'),
    ],
    notes: [
      'BPF_LINK_CREATE and BPF_LINK_UPDATE of XDP wait for RCU grace periods (bpf_dispatcher_change_prog), which are longer on a busy machine',
      `${times} times each, but the hundred once`,
      'count.bpf.c, as in `chain`',
    ],
  };
}

/**
 * The unavoidable part: the link of an interface goes from one program to another, both loaded; and libbpf loads a program, for which the
 * kernel creates a link. What the load frees begins a grace period, so that the link waits longer than one of a program loaded before.
 */
async function bareChanges(times: number): Promise<readonly [exchanges: Took[], attached: Took[]]> {
  using stack = new DisposableStack();
  const load = (into: DisposableStack) => {
    const object = into.use(BpfObject.open(bytecode('count'), 'count'));
    for (const one of object.programs()) one.autoload = one.name === 'xdp_count';
    object.load();
    return { fd: object.program('xdp_count').fd };
  };
  let [current, next] = [load(stack), load(stack)];
  using route = new RouteSocket();
  const index = findInterface(route, 'in0')?.index ?? 0;
  const timed = async (change: () => void, undo = (): void => undefined): Promise<Took[]> => {
    const took: Took[] = [];
    for (let time = 0; time < times; time++) {
      await sleep(REST_MS);
      const [begin, cpu] = [performance.now(), process.cpuUsage()];
      change();
      took.push({ ms: performance.now() - begin, cpuMs: cpuMsSince(cpu) });
      undo();
    }
    return took;
  };
  let loaded = new DisposableStack();
  const attached = await timed(
    () => {
      loaded = new DisposableStack();
      loaded.use(attachXdp(load(loaded), index).link);
    },
    () => loaded.dispose(),
  );
  const { link } = attachXdp(current, index);
  stack.use(link);
  const exchanges = await timed(() => {
    replaceProgram(link, next, current);
    [current, next] = [next, current];
  });
  return [exchanges, attached];
}

interface Took {
  readonly ms: number;
  /**
   * CPU time of this process, including the verifier: more meaningful than elapsed time on a busy machine.
   */
  readonly cpuMs: number;
}

function cpuMsSince(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

function check(outcome: Outcome): void {
  if (outcome.state !== 'loaded') throw new Error(JSON.stringify(outcome));
}

function row(label: string, times: readonly Took[]): ReportRow {
  const ms = times.map((time) => time.ms);
  const [middle, late, cpu] = [median(ms), quantile(ms, 0.99), median(times.map(({ cpuMs }) => cpuMs))];
  return {
    label,
    cells: { median: `${middle.toFixed(1)} ms`, p99: `${late.toFixed(1)} ms`, CPU: `${cpu.toFixed(1)} ms` },
    values: { medianMs: middle, p99Ms: late, cpuMs: cpu },
  };
}

function verdict(what: string, ms: number, max: number, how: string): Verdict {
  return { target: `${what}: at most ${max} ms (${how})`, measured: `${ms.toFixed(1)} ms`, met: ms <= max };
}
