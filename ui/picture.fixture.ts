/** A small picture of each form, with names as attackers choose them; for tests. */
import type { DrawnItem, DrawnPicture } from '../apps/ui/report.ts';

/** It would change the title of the page if it were anything but text. */
export const image = '<img src=x onerror=document.title="run">';

function item(at: readonly string[], tone: DrawnItem['tone'], more: Partial<DrawnItem> = {}): DrawnItem {
  const text = `${at.join(' to ')}: all that there is to say.`;
  return { at, value: 2, tone, mark: '✕ 2', text, command: null, ...more };
}

const command = { line: "rampart network explain --from 'shop/web' --to shop/db", isOnNode: false };
const common = { title: 'A picture', unit: 'packets', notes: [`Of ${image}.`] };
const legend = (['ok', 'warn', 'bad', 'none', 'level1', 'level2', 'level3', 'level4'] as const).map(
  (tone) => ({
    tone,
    words: tone,
  }),
);
const names = ['shop/web', `shop/${image}`, 'shop/'.padEnd(80, 'long-')];
const nowMs = Date.now();

/** By the name of a guard that it could be of. */
export const pictures: Readonly<Record<string, DrawnPicture>> = {
  grid: {
    ...{ form: 'grid', axes: ['from', 'to'], ...common, legend },
    items: names.flatMap((from, row) =>
      names.map((to, column) => item([from, to], legend[(row * 3 + column) % 8]?.tone ?? 'ok', { command })),
    ),
  },
  chains: {
    ...{ form: 'chains', axes: ['hook', 'program'], ...common, legend: legend.slice(0, 4) },
    items: ['lo · xdp', `${image} · tc`].flatMap((hook) =>
      names.map((name, at) =>
        item([hook, `${at} ${name}`], legend[at]?.tone ?? 'ok', {
          ...{ proceedOn: 'pass, dispatcher_return', mark: '1,204 runs · 85 ns' },
          command: { line: 'rampart bpf chain lo', isOnNode: true },
        }),
      ),
    ),
  },
  tree: {
    ...{ form: 'tree', axes: ['path'], ...common, legend: legend.slice(1, 4) },
    items: Array.from({ length: 20 }, (_, at) =>
      item(['/', 'etc', `d${at % 3}`, `${at}${image}`], legend[1 + (at % 3)]?.tone ?? 'bad', { command }),
    ),
  },
  lanes: {
    ...{ form: 'lanes', axes: ['file', 'process'], ...common, legend: legend.slice(1, 3) },
    span: { fromMs: nowMs - 3_600_000, toMs: nowMs },
    items: names.flatMap((file) =>
      [0.1, 0.5, 0.9].map((part) =>
        item([file, image], part > 0.5 ? 'bad' : 'warn', {
          timeMs: nowMs - part * 3_600_000,
          mark: '',
          command,
        }),
      ),
    ),
  },
};
