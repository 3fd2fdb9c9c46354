import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import { TemporaryDirectory } from '../../lib/testing/temporary-directory.fixture.ts';
import { allMetrics } from '../../scripts/metric-list.ts';
import { metricsIn } from './expressions.ts';
import { promtool } from './promtool.fixture.ts';

interface GridPos {
  readonly x: number;
  readonly y: number;
  readonly w: number;
  readonly h: number;
}

interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly gridPos: GridPos;
  readonly datasource?: { readonly uid: string };
  readonly targets?: readonly { readonly refId: string; readonly expr: string }[];
  readonly panels?: readonly Panel[];
}

const { panels, templating } = JSON.parse(
  readFileSync(join(import.meta.dirname, '../../deploy/monitoring/dashboard.json'), 'utf8'),
) as {
  readonly panels: readonly Panel[];
  readonly templating: { readonly list: readonly { readonly name: string }[] };
};
const all = panels.flatMap((panel) => [panel, ...(panel.panels ?? [])]);
const expressions = all.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ title, expr })));

suite('the dashboard', () => {
  test('each panel has an ID and a place of its own, and asks the chosen data source', () => {
    assert.equal(new Set(all.map(({ id }) => id)).size, all.length);
    for (const siblings of [panels, ...panels.map((row) => row.panels ?? [])]) {
      const cells = new Set<string>();
      for (const { title, gridPos } of siblings) {
        const { x, y, w, h } = gridPos;
        assert.ok(x >= 0 && x + w <= 24 && w > 0 && h > 0, title);
        for (let column = x; column < x + w; column++) {
          for (let line = y; line < y + h; line++) {
            assert.ok(!cells.has(`${column} ${line}`), `${title} lies over another panel`);
            cells.add(`${column} ${line}`);
          }
        }
      }
    }
    for (const { type, datasource, targets = [] } of all) {
      if (type === 'row') continue;
      assert.equal(datasource?.uid, '${datasource}');
      assert.ok(targets.length > 0);
      assert.equal(new Set(targets.map(({ refId }) => refId)).size, targets.length);
    }
  });

  test('it shows each metric there is, and no other', async () => {
    const served = await allMetrics();
    const shown = new Set(expressions.flatMap(({ expr }) => metricsIn(expr)));
    const hidden = [...served.keys()].filter((name) => !shown.has(name));
    assert.deepEqual(hidden, ['rampart_build_info']);
    assert.deepEqual(
      [...shown].filter((name) => name !== 'up' && !served.has(name)),
      [],
    );
  });

  test('Prometheus understands each expression, and Grafana each variable', async () => {
    const names = new Set(templating.list.map(({ name }) => name));
    const rules = expressions.map(({ title, expr }, at) => {
      for (const [, name = ''] of expr.matchAll(/\$(\w+)/g))
        assert.ok(name === '__rate_interval' || names.has(name), `${title}: $${name}`);
      return {
        record: `panel_${at}`,
        expr: expr.replaceAll('$__rate_interval', '5m').replaceAll('$node', '.*'),
      };
    });
    using directory = new TemporaryDirectory();
    writeFileSync(directory.at('rules.yml'), JSON.stringify({ groups: [{ name: 'panels', rules }] }));
    const { code, text } = await promtool(['check', 'rules', directory.at('rules.yml')]);
    assert.equal(code, 0, text);
  });
});
