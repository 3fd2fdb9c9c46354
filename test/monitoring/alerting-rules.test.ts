import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import { parse } from 'yaml';

import { guards } from '../../apps/guards.ts';
import type { AlertingRule } from '../../guard/alerting-rule.ts';
import { TemporaryDirectory } from '../../lib/testing/temporary-directory.fixture.ts';
import { allMetrics } from '../../scripts/metric-list.ts';
import { annotationsOf, prometheusRules, ruleGroups } from '../../scripts/monitoring.ts';
import { examples } from './alert-examples.ts';
import { metricsIn } from './expressions.ts';
import { promtool } from './promtool.fixture.ts';

const groups = await ruleGroups(guards);
const rules = groups.flatMap((group) => group.rules);

/** As Prometheus fills in its templates; the rules use no others. */
function filled(text: string, labels: Readonly<Record<string, string>>): string {
  return text.replaceAll(/\{\{ \$labels\.(\w+) \}\}/g, (_, label: string) => labels[label] ?? '');
}

/** A file for `promtool test rules`, beside the file of its rule. */
function ruleTests({ name: alertname, severity, labels = {}, ...texts }: AlertingRule): object {
  const { fires = [], quiet = [] } = examples[alertname] ?? {};
  const one = (example: (typeof fires)[number] | (typeof quiet)[number], expected: object[]): object => ({
    interval: '1m',
    input_series: Object.entries(example.series).map(([series, values]) => ({ series, values })),
    alert_rule_test: [{ eval_time: `${example.at}m`, alertname, exp_alerts: expected }],
  });
  const tests = [
    ...fires.map((example) => {
      const annotations = Object.entries(annotationsOf(texts)).map(([key, text]) => [
        key,
        filled(text, example.labels),
      ]);
      return one(example, [
        {
          exp_labels: { ...example.labels, severity, ...labels },
          exp_annotations: Object.fromEntries(annotations),
        },
      ]);
    }),
    ...quiet.map((example) => one(example, [])),
  ];
  return { rule_files: [`${alertname}.yml`], evaluation_interval: '1m', tests };
}

/** What `promtool test rules` says of them, and the names of those that did not do as their examples say. */
async function outcome(
  tested: readonly AlertingRule[],
): Promise<{ readonly failed: readonly string[]; readonly text: string }> {
  using directory = new TemporaryDirectory();
  for (const rule of tested) {
    // JSON is YAML.
    const text = JSON.stringify(prometheusRules([{ name: 'one', rules: [rule] }]));
    writeFileSync(directory.at(`${rule.name}.yml`), text);
    writeFileSync(directory.at(`${rule.name}.test.yml`), JSON.stringify(ruleTests(rule)));
  }
  // One process for all: a start takes longer than a rule.
  const files = tested.map(({ name }) => directory.at(`${name}.test.yml`));
  const { code, text } = await promtool(['test', 'rules', ...files]);
  const passed = new Set(
    [...text.matchAll(/^Unit Testing: +\S+\/(\w+)\.test\.yml\n +SUCCESS$/gm)].map(([, name]) => name),
  );
  const failed = tested.map(({ name }) => name).filter((name) => !passed.has(name));
  assert.equal(code, failed.length === 0 ? 0 : 1, text);
  return { failed, text };
}

suite('alerting rules', { timeout: 300_000 }, () => {
  test('each has examples, and is about what the processes serve', async () => {
    assert.deepEqual(Object.keys(examples).toSorted(), rules.map(({ name }) => name).toSorted());
    const served = await allMetrics();
    for (const { name, expr } of rules) {
      for (const metric of metricsIn(expr)) {
        assert.ok(metric === 'up' || served.has(metric), `${name} is about ${metric}, which nobody serves`);
      }
    }
  });

  test('each fires when it should, with its texts, and not otherwise', async () => {
    const { failed, text } = await outcome(rules);
    assert.deepEqual(failed, [], text);
  });

  test('an expression that never fires is found, and no other', async () => {
    const [first, second] = rules;
    assert.ok(first && second);
    const { failed, text } = await outcome([{ ...first, expr: `(${first.expr}) > 2` }, second]);
    assert.deepEqual(failed, [first.name]);
    assert.match(text, /FAILED[^]*RampartAgentDown/);
  });

  test('those of deploy/monitoring are these, and Prometheus takes them', async () => {
    const file = join(import.meta.dirname, '../../deploy/monitoring/prometheusrule.yaml');
    const { spec } = parse(readFileSync(file, 'utf8')) as { spec: object };
    assert.deepEqual(spec, prometheusRules(groups));
    using directory = new TemporaryDirectory();
    writeFileSync(directory.at('rules.yml'), JSON.stringify(spec));
    const { code, text } = await promtool(['check', 'rules', directory.at('rules.yml')]);
    assert.equal(code, 0, text);
  });
});
