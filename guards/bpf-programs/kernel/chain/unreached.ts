/** Reports programs that no packet reaches, and why, by reading the counts of their hooks at intervals. */
import type { Descriptor } from '../../../../lib/ebpf/bpf-call.ts';
import { type Clock, systemClock } from '../../../../lib/time/clock.ts';
import { unreached } from '../desired.ts';
import { enableStatistics, programInfo } from '../info.ts';
import { type ChainMember, type ChainView, chainView, tcxViews } from '../running/chains.ts';
import type { Kept } from '../running/kept.ts';
import { openById } from '../running/kernel-ids.ts';
import { Reach } from './reach.ts';

/**
 * The kernel counts runs of TCX programs only on request, at a few ns for each run: this is the pause between
 * two measurements.
 */
const TCX_PAUSE_MS = 60_000;

/** Notes about programs, keyed by {@link DesiredProgram.id}. */
type Notes = ReadonlyMap<string, string>;

export class Unreached implements Disposable {
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  readonly #chainReach = new Reach();
  readonly #tcxReach = new Reach();
  #chains: Notes = new Map();
  #tcx: Notes = new Map();
  /** Set while the runs of these hooks are being counted. */
  #counting: { readonly views: readonly ChainView[]; readonly statistics: Descriptor } | undefined;
  #tcxAtMs = -Infinity;
  #tcxPrograms = '';

  constructor(clock: Pick<Clock, 'monotonicMs'> = systemClock) {
    this.#clock = clock;
  }

  /** Why no packet reaches the program with this ID; undefined if that is not known. */
  noteOf(id: string): string | undefined {
    return this.#chains.get(id) ?? this.#tcx.get(id);
  }

  /** Reads the counts. Call it every few seconds. */
  look(kept: Kept): void {
    const chains = kept.chains
      .filter(({ members }) => members.length > 1)
      .map((chain) => chainView(kept, chain));
    this.#chains = notesOf(kept, chains, this.#chainReach, ({ runs = 0n }) => runs);
    this.#chainReach.keepOnly(new Set(chains.map(keyOf)));
    this.#lookAtTcx(kept);
  }

  #lookAtTcx(kept: Kept): void {
    const programs = [...kept.programs.values()].filter(({ type }) => type === 'tcx');
    const now = programs
      .map(({ programId, attachKey, priority }) => `${programId} ${attachKey} ${priority}`)
      .join();
    const isNew = now !== this.#tcxPrograms;
    const counted = this.#counting;
    if (counted !== undefined) {
      this.#tcx = notesOf(kept, counted.views, this.#tcxReach, runsOf);
      this.#stop();
    }
    if (isNew) [this.#tcx, this.#tcxPrograms, this.#tcxAtMs] = [new Map(), now, -Infinity];
    if (programs.length === 0 || this.#clock.monotonicMs() < this.#tcxAtMs) return;
    this.#tcxAtMs = this.#clock.monotonicMs() + TCX_PAUSE_MS;
    // Only hooks in which a program of Rampart runs after another one, whoever attached that.
    const views = tcxViews(kept).filter(({ members }) => members.slice(1).some(({ id }) => id !== undefined));
    this.#tcxReach.keepOnly(new Set(views.map(keyOf)));
    if (views.length === 0) return;
    this.#counting = { views, statistics: enableStatistics() };
    notesOf(kept, views, this.#tcxReach, runsOf);
  }

  #stop(): void {
    this.#counting?.statistics[Symbol.dispose]();
    this.#counting = undefined;
  }

  [Symbol.dispose](): void {
    this.#stop();
  }
}

function notesOf(
  kept: Kept,
  views: readonly ChainView[],
  reach: Reach,
  runs: (member: ChainMember) => bigint,
): Notes {
  const notes = new Map<string, string>();
  for (const view of views) {
    const members = view.members.map((member) => ({ programId: member.programId, runs: runs(member) }));
    const at = reach.count({ key: keyOf(view), members });
    const last = at === undefined ? undefined : view.members[at];
    if (at === undefined || last === undefined) continue;
    for (const { id } of view.members.slice(at + 1))
      if (id !== undefined) notes.set(id, noteFor(kept, id, last, view));
  }
  return notes;
}

function keyOf({ kind, interface: name, direction, container }: ChainView): string {
  return [kind, name, direction ?? '', container ?? ''].join(' ');
}

/** The runs of a TCX program; counted only while statistics are enabled. */
function runsOf({ programId }: ChainMember): bigint {
  using program = openById('program', programId);
  return program === undefined ? 0n : programInfo(program.fd).runs;
}

function noteFor({ programs }: Kept, id: string, last: ChainMember, view: ChainView): string {
  const namespace = programs.get(id)?.namespace;
  const isHidden = namespace !== undefined && namespace !== programs.get(last.id ?? '')?.namespace;
  // A tenant must not learn about programs of others.
  const who = isHidden
    ? 'another program'
    : (last.owner ?? `program ${last.programId} (${last.functionName}), which is not Rampart's,`);
  const where = view.direction === undefined ? view.interface : `${view.interface} ${view.direction}`;
  const does =
    view.kind === 'tcx'
      ? 'returns something else than TCX_NEXT (-1)'
      : `returns codes that are not in its proceedon (${last.proceedOn.join(', ') || 'none'})`;
  return `${unreached} on ${where}: ${who} runs before it and ${does}`;
}
