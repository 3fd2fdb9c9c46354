/** Counts findings by hour, for users who may see only some of them. */
import type { Guard } from '../../guard/guard.ts';
import type { HourCount } from '../../guard/stream/finding-counts.ts';
import type { LineFeed } from '../../lib/feed/line-feed.ts';
import { FindingHours } from '../ui/finding-hours.ts';
import type { UiFinding } from '../ui/report.ts';
import { type AccessQuestion, keyOf, rightsFor } from './rights.ts';

/** Findings that the same rights show. There are few groups: their rights name namespaces, and nothing as numerous as findings. */
interface Group {
  readonly rights: readonly AccessQuestion[];
  readonly hours: FindingHours;
}

export class FindingGroups implements Disposable {
  readonly #guards: readonly Guard[];
  readonly #groups = new Map<string, Group>();
  readonly #following: Disposable;

  /** @param feed - Each line is the JSON of a {@link UiFinding}; it must not have any lines yet. */
  constructor(guards: readonly Guard[], feed: LineFeed) {
    this.#guards = guards;
    this.#following = feed.subscribe((_number, line) => this.#take(line));
  }

  #take(line: string): void {
    const { finding } = JSON.parse(line) as UiFinding;
    const rights = rightsFor(this.#guards, finding, finding);
    if (rights === undefined) return;
    const key = rights.map(keyOf).toSorted().join('\n');
    let group = this.#groups.get(key);
    if (group === undefined) this.#groups.set(key, (group = { rights, hours: new FindingHours() }));
    group.hours.add(finding, Date.parse(finding.time));
  }

  /** The last 24 hours, oldest first. @throws what `mayAll` throws */
  async hours(
    mayAll: (rights: readonly AccessQuestion[]) => Promise<boolean>,
    nowMs = Date.now(),
  ): Promise<HourCount[]> {
    const sums = new Map<string, HourCount>();
    for (const [key, { rights, hours }] of this.#groups) {
      const last = hours.last(nowMs);
      if (last.length === 0) this.#groups.delete(key);
      else if (await mayAll(rights)) for (const one of last) addTo(sums, one);
    }
    return [...sums.values()].toSorted((a, b) => (a.hour < b.hour ? -1 : a.hour > b.hour ? 1 : 0));
  }

  [Symbol.dispose](): void {
    this.#following[Symbol.dispose]();
  }
}

function addTo(sums: Map<string, HourCount>, { guard, hour, findings }: HourCount): void {
  const sum = { ...sums.get(`${hour} ${guard}`)?.findings };
  for (const [severity, count] of Object.entries(findings) as [keyof typeof sum, number][])
    sum[severity] = (sum[severity] ?? 0) + count;
  sums.set(`${hour} ${guard}`, { guard, hour, findings: sum });
}
