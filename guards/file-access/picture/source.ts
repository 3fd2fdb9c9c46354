import type { Picture, PictureItem, PictureSource } from '../../../guard/picture.ts';
import type { ReadFinding } from '../../../guard/stream/read-finding.ts';
import { counted, someOf } from '../../../lib/output/words.ts';
import type { KiveAlert } from '../alert/alert.ts';
import { alertLines, pathOf } from '../alert/alert-line-kind.ts';

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
const BUCKETS = 48;
const MAX_LANES = 24;

interface Access {
  readonly file: string;
  readonly process: string;
  readonly timeMs: number;
  readonly alert: KiveAlert;
  readonly next: readonly string[] | undefined;
}

export const fileAccessPicture: PictureSource = {
  read: async ({ findings, timeMs }) => accessPicture(findings, timeMs),
};

export function accessPicture(findings: readonly ReadFinding[], nowMs: number): Picture {
  const all = findings
    .flatMap((finding) => accessOf(finding) ?? [])
    .filter(({ timeMs }) => timeMs > nowMs - DAY_MS && timeMs <= nowMs);
  // The time since the oldest access, but at least an hour: on a scale of a whole day, the accesses of an hour would be
  // a single dot.
  const oldestMs = Math.min(nowMs - HOUR_MS, ...all.map(({ timeMs }) => timeMs));
  const span = { fromMs: oldestMs, toMs: nowMs };
  const lanes = [...Map.groupBy(all, ({ file, process }) => JSON.stringify([file, process])).values()]
    .toSorted((a, b) => b.length - a.length)
    .slice(0, MAX_LANES)
    .toSorted((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1));
  const left = new Set(all.map(({ file, process }) => JSON.stringify([file, process]))).size - lanes.length;
  const notes = [
    all.length === 0 && 'No access was found in the last 24 hours.',
    left > 0 && `${counted(left, 'lane')} left out: those with the fewest accesses.`,
  ].filter((note) => note !== false);
  const widthMs = (nowMs - oldestMs) / BUCKETS;
  const bucketOf = ({ timeMs }: Access): number =>
    Math.min(BUCKETS - 1, Math.floor((timeMs - oldestMs) / widthMs));
  return {
    ...{ form: 'lanes', title: 'Which processes access which files, and when', span, notes },
    ...{ axes: ['file', 'process'], unit: 'accesses' },
    items: lanes.flatMap((lane) =>
      [...Map.groupBy(lane, bucketOf)].map(([bucket, accesses]) =>
        itemOf(accesses, oldestMs + (bucket + 0.5) * widthMs),
      ),
    ),
    legend: [
      { tone: 'warn', words: 'allowed' },
      { tone: 'bad', words: 'denied' },
    ],
  };
}

function nameOf([first]: readonly Access[]): string {
  return `${first?.file ?? ''}\0${first?.process ?? ''}`;
}

function accessOf(finding: ReadFinding): Access | undefined {
  const view = finding.head.kind === alertLines.kind ? alertLines.view(finding) : undefined;
  if (view === undefined) return undefined;
  const alert = finding.keys as unknown as KiveAlert;
  return {
    file: pathOf(alert),
    process: alert.process.binary || alert.process.comm,
    timeMs: Number(finding.timeNs / 1_000_000n),
    alert,
    next: view.next,
  };
}

function itemOf(accesses: readonly Access[], timeMs: number): PictureItem {
  const [first] = accesses;
  if (first === undefined) throw new TypeError('a group has no member');
  const { file, process, next } = accesses.at(-1) ?? first;
  const denied = accesses.filter(({ alert }) => alert.metadata.verdict === 'denied').length;
  const count = accesses.reduce((sum, { alert }) => sum + 1 + alert.metadata.folded, 0);
  const kinds = [
    ...new Set(
      accesses.flatMap(({ alert: { metadata } }) => [...metadata.access, metadata.operation ?? []].flat()),
    ),
  ];
  const pods = [...new Set(accesses.map(({ alert: { pod, node } }) => ownerOf(pod, node.name)))];
  const refused = denied === 0 ? '' : ` ${counted(denied, 'was denied', 'were denied')}.`;
  return {
    at: [file, process],
    ...{ timeMs, value: count, mark: '' },
    tone: denied > 0 ? 'bad' : 'warn',
    text: `${process} accessed ${file} in ${someOf(pods, 3)}: ${counted(count, 'access', 'accesses')} (${kinds.join(', ')}).${refused}`,
    ...(next && { next }),
  };
}

function ownerOf({ namespace, name, container }: KiveAlert['pod'], node: string): string {
  return name === '' ? `node ${node}` : `${namespace}/${name}/${container.name}`;
}
