/** The chains of this machine's kernel, with how often and how long they run. */
import type { Picture, PictureItem } from '../../../guard/picture.ts';
import { messageOf } from '../../../lib/errors/errors.ts';
import { counted } from '../../../lib/output/words.ts';
import { sleep, systemClock } from '../../../lib/time/clock.ts';
import { enableStatistics } from '../kernel/info.ts';
import type { ChainMember, ChainView } from '../kernel/running/chains.ts';
import { tcxViews } from '../kernel/running/chains.ts';
import { readKept, type ReadOptions } from '../kernel/running/kept.ts';
import { countersOf, type Statistics } from '../kernel/running/statistics.ts';
import { readingPlace } from '../node/locked-host.ts';
import { bpffsOption, bpfStateOption } from '../options.ts';

const MEASURE_MS = 500;
/** Limit of chains in the picture: a node has many pods, each of which may have its own chains. */
const MAX_CHAINS = 24;

interface Counts {
  readonly runs: bigint;
  readonly runTimeNs: bigint | undefined;
}

/** The contents of the picture; without items, a note says why. */
export type KernelChains = Pick<Picture, 'items' | 'notes'>;

export async function kernelChains(signal: AbortSignal): Promise<KernelChains> {
  let reading: ReadOptions;
  try {
    reading = readingPlace({
      bpffs: bpffsOption.default as string,
      stateDirectory: bpfStateOption.default as string,
    });
  } catch (error) {
    return { items: [], notes: [messageOf(error)] };
  }
  const { before, now, note } = await measure(reading, signal);
  const composed = now.chains.map(({ chain, ...counts }) => ({
    chain,
    rate: rateOf(counts, chainCounts(before, chain)),
  }));
  const tcx = tcxViews(readKept(reading)).map((chain) => ({ chain, rate: undefined }));
  // The node's own chains come before those of pods.
  const all = [...composed, ...tcx].toSorted((a, b) => Number(isOfPod(a.chain)) - Number(isOfPod(b.chain)));
  const shown = all.slice(0, MAX_CHAINS);
  const left = all.length - shown.length;
  return {
    items: shown.flatMap(({ chain, rate }) => chainItems(chain, before, now, rate)),
    notes: [
      ...(left > 0
        ? [`${counted(left, 'chain')} left out, those of pods first: rampart bpf chain has all.`]
        : []),
      ...(note === undefined ? [] : [note]),
    ],
  };
}

function isOfPod({ container }: ChainView): boolean {
  return container !== undefined;
}

/** Reads the counters twice. The kernel measures time only on request, which costs each run a few ns for half a second. */
async function measure(
  reading: ReadOptions,
  signal: AbortSignal,
): Promise<{ readonly before: Statistics; readonly now: Statistics; readonly note?: string }> {
  try {
    using _statistics = enableStatistics();
    const before = countersOf(reading, false);
    await sleep(systemClock, MEASURE_MS, signal);
    return { before, now: countersOf(reading, false) };
  } catch (error) {
    if (signal.aborted) throw error;
    const now = countersOf(reading, false);
    return { before: now, now, note: `How long programs run is not known: ${messageOf(error)}` };
  }
}

function chainCounts({ chains }: Statistics, { programId }: ChainView): Counts | undefined {
  return chains.find(({ chain }) => chain.programId === programId);
}

function programCounts({ programs }: Statistics, { programId }: ChainMember): Counts | undefined {
  return programs.find(({ program }) => program.programId === programId);
}

interface Rate {
  readonly perSecond: number;
  /** Undefined if it did not run during the measurement, or is a member of a chain. */
  readonly nsPerRun: number | undefined;
}

function rateOf(now: Counts | undefined, before: Counts | undefined): Rate | undefined {
  if (now === undefined || before === undefined) return undefined;
  const runs = Number(now.runs - before.runs);
  const timeNs = Number((now.runTimeNs ?? 0n) - (before.runTimeNs ?? 0n));
  // If the program did not run during this measurement, use the totals of all earlier runs, which the kernel keeps.
  const [allRuns, allNs] = runs > 0 ? [runs, timeNs] : [Number(now.runs), Number(now.runTimeNs ?? 0n)];
  return {
    perSecond: Math.round((runs * 1000) / MEASURE_MS),
    nsPerRun: allRuns > 0 && now.runTimeNs !== undefined ? Math.round(allNs / allRuns) : undefined,
  };
}

function chainItems(
  chain: ChainView,
  before: Statistics,
  now: Statistics,
  whole: Rate | undefined,
): PictureItem[] {
  const { interface: name, kind, direction, container, pod, members, notes } = chain;
  const where =
    pod === undefined ? (container === undefined ? '' : ` in network ${container}`) : ` in ${pod}`;
  const hook = [`${name}${where}`, kind, direction].filter((part) => part !== undefined).join(' · ');
  const nanoseconds = whole?.nsPerRun === undefined ? '' : ` · ${number(whole.nsPerRun)} ns a packet`;
  return members.map((member): PictureItem => {
    const { owner, functionName, priority, proceedOn, runs, programId, notes: own } = member;
    const rate = rateOf(programCounts(now, member), programCounts(before, member));
    const title = functionName || `program ${programId}`;
    const by = owner === undefined ? "Not Rampart's" : `For ${owner}`;
    const perSecond = rate?.perSecond ?? 0;
    const all = [
      `${by}${priority === undefined ? '' : `, priority ${priority}`}.`,
      proceedOn.length > 0 && kind !== 'tcx' && `The next one runs after ${proceedOn.join(', ')}.`,
      runs !== undefined && `${number(runs)} runs since it joined.`,
      rate !== undefined && `${number(perSecond)} a second now.`,
      rate?.nsPerRun !== undefined && `${number(rate.nsPerRun)} ns a run.`,
      whole?.nsPerRun !== undefined && `The whole chain takes ${number(whole.nsPerRun)} ns a packet.`,
      ...[...own, ...notes].map((note) => `${note.replace(/\.$/, '')}.`),
    ].filter((words) => words !== false);
    return {
      at: [`${hook}${nanoseconds}`, [priority, title, owner && `for ${owner}`].filter(Boolean).join(' ')],
      value: Number(runs ?? perSecond),
      tone: own.length > 0 ? 'warn' : owner === undefined ? 'none' : 'ok',
      mark: [
        runs === undefined ? `${number(perSecond)}/s` : `${number(runs)} runs`,
        rate?.nsPerRun !== undefined && `${number(rate.nsPerRun)} ns`,
      ]
        .filter((words) => words !== false)
        .join(' · '),
      proceedOn: kind === 'tcx' ? 'next' : proceedOn.join(', '),
      text: `${title} on ${hook}. ${all.join(' ')}`,
      // In another network namespace, the name may belong to another interface.
      ...(container === undefined && { nextOnNode: ['bpf', 'chain', name] }),
    };
  });
}

function number(value: bigint | number): string {
  return value.toLocaleString('en');
}
