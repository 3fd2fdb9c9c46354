import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, test } from 'node:test';

import { accessWords } from '../lib/sensor/access.ts';
import { operations } from '../lib/sensor/modes.ts';
import { access, context } from '../guards/file-access/alert/alert.fixture.ts';
import { AlertEncoder } from '../guards/file-access/alert/alert.ts';
import { guards } from '../apps/guards.ts';
import type { Guard } from '../guard/guard.ts';
import {
  generatedFiles,
  guardMetricsTable,
  healthTable,
  operationsTable,
  podTable,
  regenerate,
  rightsTable,
} from './docs.ts';
import { featureReasons } from '../lib/ebpf/features/feature.ts';

const top = join(import.meta.dirname, '..');
const read = (file: string): string => readFileSync(join(top, file), 'utf8');

const notOurs: ReadonlySet<string> = new Set(['node_modules', '.cache', 'dist', '.git']);
const markdownFiles = globSync('**/*.md', { cwd: top, exclude: (name) => notOurs.has(name) });

describe('generated parts are up to date (else run: node scripts/docs.ts --write)', () => {
  for (const file of generatedFiles) {
    test(file, async () => {
      const text = read(file);
      assert.match(text, /<!-- generated: /);
      assert.equal(text, await regenerate(text));
    });
  }

  test('the table has every operation', () => {
    assert.equal(operationsTable().split('\n').length, operations.length + 2);
  });

  test('the tables of a guard follow its descriptor', async () => {
    const guard: Guard = {
      name: 'doors',
      summary: '',
      resources: [],
      parse: () => undefined,
      rights: {
        viewer: [
          {
            apiGroups: ['d.dev'],
            resources: ['doors'],
            resourceNames: ['d'],
            verbs: ['get'],
            inSystem: true,
          },
        ],
      },
      pod: { capabilities: [{ name: 'BPF', why: 'Programs.' }], hostNetwork: 'Doors of the node.' },
      health: [
        { on: 'node', name: 'pods', what: 'pods are listed' },
        { on: 'cluster', name: 'lease', what: 'it is known who leads', alive: true },
      ],
      metrics: () =>
        Promise.resolve({
          node: (metrics) => metrics.counter({ name: 'b', help: 'B.', labelNames: ['l'] }, () => 0),
          cluster: (metrics) => metrics.gauge({ name: 'a', help: 'A.' }, () => 0),
        }),
    };
    const rows = (text: string): string[] => text.split('\n').filter((line) => /^\| (doors|`)/.test(line));
    assert.deepEqual(rows(healthTable(guard)), [
      '| `doors-node-pods` | agent | `/readyz` | pods are listed |',
      '| `doors-lease` | operator | `/healthz` | it is known who leads |',
    ]);
    assert.equal(healthTable({ ...guard, health: [] }), '');
    assert.deepEqual(rows(await guardMetricsTable(guard)), [
      '| `b` | counter | `l` | B. | agent |',
      '| `a` | gauge |  | A. | operator |',
    ]);
    assert.deepEqual(rows(rightsTable([guard])), [
      '| doors | viewer | `doors` of d.dev named `d`, in `rampart-system` | get |',
    ]);
    assert.deepEqual(rows(podTable([guard])), [
      '| doors | capability `BPF` | Programs. |',
      '| doors | `hostNetwork` | Doors of the node. |',
    ]);
  });

  test('each guard has its tables in a guide', () => {
    const guides = generatedFiles.map(read).join('');
    for (const { name } of guards) {
      for (const what of ['metrics', 'health'])
        assert.ok(guides.includes(`generated: ${what} of ${name} `), name);
    }
  });

  test('an old part is replaced, an unknown one refused', async () => {
    const old = 'before\n\n<!-- generated: operations -->\n\nold\n\n<!-- end -->\n\nafter\n';
    const fresh = await regenerate(old);
    assert.match(fresh, /`metadata`/);
    assert.ok(!fresh.includes('old'));
    assert.match(fresh, /^before\n[^]*after\n$/);
    await assert.rejects(regenerate(old.replace('operations', 'magic')), /magic/);
  });
});

describe('docs/watch.md names', () => {
  const guide = read('docs/watch.md');
  const missing = (words: readonly string[]): readonly string[] =>
    words.filter((word) => !guide.includes(word));

  test('every key of an alert', () => {
    const leaves = (value: object): string[] =>
      Object.entries(value).flatMap(([key, below]: [string, unknown]) =>
        below !== null && typeof below === 'object' && !Array.isArray(below)
          ? [key, ...leaves(below)]
          : [key],
      );
    const alert = JSON.parse(new AlertEncoder({ ...context, customMetadata: {} }).encode(access)) as object;
    assert.deepEqual(missing(leaves(alert)), []);
  });

  test('every word of --access', () => {
    assert.deepEqual(missing(accessWords.map((word) => `| \`${word}\` `)), []);
  });

  test('lists every reason that rampart doctor gives', () => {
    assert.deepEqual(missing(featureReasons.map((word) => `| \`${word}\` `)), []);
  });
});

/** The anchors that GitHub gives to the headings of a file. */
const headings = (file: string): ReadonlySet<string> =>
  new Set(
    [...read(file).matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) =>
      heading
        .toLowerCase()
        .replaceAll(/[^\w -]/g, '')
        .replaceAll(' ', '-'),
    ),
  );

describe('links to files and headings lead somewhere', () => {
  for (const file of markdownFiles) {
    test(file, () => {
      const text = read(file).replaceAll(/```.*?```/gs, '');
      const links = [...text.matchAll(/\]\((?!https?:)([^)#\s]*)(?:#([^)]*))?\)/g)];
      const dead = links
        .map(([, target = '', anchor]) => ({
          to: target === '' ? file : join(dirname(file), target),
          anchor,
        }))
        .filter(
          ({ to, anchor }) =>
            !existsSync(join(top, to)) || (anchor !== undefined && !headings(to).has(anchor)),
        );
      assert.deepEqual(dead, []);
    });
  }
});
