/**
 * The parts of the documentation that repeat what the code says. `node scripts/docs.ts` writes them anew;
 * docs.test.ts fails when they are out of date.
 *
 * @module
 */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { format, resolveConfig } from 'prettier';

import { registerProcessMetrics } from '../apps/agent/process-metrics.ts';
import type { MetricDefinition, Metrics } from '../shared/observe/metrics.ts';
import { describeMask } from '../shared/sensor/access.ts';
import { operations, sensorModeNames } from '../shared/sensor/modes.ts';
import { shareMetrics } from '../shared/kube/shared-metrics.ts';
import { addDeliveryMetrics } from '../systems/file-access/delivery/delivery-metrics.ts';
import type { Delivery } from '../systems/file-access/delivery/delivery.ts';
import { ClusterMetrics } from '../systems/file-integrity/cluster/metrics.ts';
import { NodeCounts } from '../systems/file-integrity/node/node-counts.ts';
import { type NodeReadings, registerNodeMetrics } from '../systems/file-access/node-metrics.ts';

const top = join(import.meta.dirname, '..');

/** What each generated part is made of, by the name that its markers carry. */
const parts: Readonly<Record<string, () => string>> = {
  operations: operationsTable,
  'watch help': () => commandHelp('watch'),
  'doctor help': () => commandHelp('doctor'),
  'agent metrics': agentMetricsTable,
  'operator metrics of file integrity': () =>
    metricsTable((metrics) => new ClusterMetrics().register(metrics)),
};

/** The files that have such parts, by their path from the top of the repository. */
export const generatedFiles: readonly string[] = [
  'docs/file-access.md',
  'docs/file-integrity.md',
  'docs/sensor.md',
  'docs/watch.md',
];

/** What the modes see: shared/sensor/modes.ts as a Markdown table. */
export function operationsTable(): string {
  const head = ['operation', 'what', ...sensorModeNames, 'why not'];
  const rows = operations.map(({ name, what, seen, unseenBecause }) => {
    const cells = sensorModeNames.map((mode) => {
      const mask = seen[mode];
      return mask === undefined ? 'no' : `${describeMask(mask).join(', ')} (${mask})`;
    });
    const everywhere = sensorModeNames.every((mode) => seen[mode] !== undefined);
    return [`\`${name}\``, what, ...cells, everywhere ? '' : (unseenBecause ?? '')];
  });
  return [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n');
}

/** What an agent serves at /metrics: it registers here what it registers there. */
function agentMetricsTable(): string {
  return metricsTable((metrics) => {
    // Nothing is read of what is given to them.
    registerProcessMetrics(metrics, { isReady: () => false, linesDropped: () => 0 });
    shareMetrics(metrics);
    registerNodeMetrics(metrics, {} as NodeReadings);
    addDeliveryMetrics(metrics, {} as Delivery);
    new NodeCounts().register(metrics);
  });
}

/** As a Markdown table, by their names. */
function metricsTable(register: (metrics: Metrics) => void): string {
  const rows: string[][] = [];
  const add =
    (kind: string) =>
    ({ name, help, labelNames = [] }: MetricDefinition): void =>
      void rows.push([`\`${name}\``, kind, labelNames.map((label) => `\`${label}\``).join(', '), help]);
  register({
    counter: add('counter'),
    gauge: add('gauge'),
    histogram: add('histogram'),
  } as Partial<Metrics> as Metrics);
  const head = ['metric', 'kind', 'labels', 'what'];
  const byName = rows.toSorted(([one = ''], [other = '']) => (one < other ? -1 : 1));
  return [head, head.map(() => '---'), ...byName].map((row) => `| ${row.join(' | ')} |`).join('\n');
}

function commandHelp(command: string): string {
  const help = execFileSync(join(top, 'bin/rampart'), [command, '--help'], { encoding: 'utf8' });
  return `\`\`\`text\n${help.trimEnd()}\n\`\`\``;
}

const part = /(<!-- generated: ([\w ]+) -->)\n.*?(<!-- end -->)/gs;

/** The text of a Markdown file with its generated parts made anew, formatted. */
export async function regenerate(text: string): Promise<string> {
  const fresh = text.replaceAll(part, (_all, begin: string, name: string, end: string) => {
    const make = parts[name];
    if (make === undefined) throw new Error(`nothing is generated under the name "${name}"`);
    return `${begin}\n\n${make()}\n\n${end}`;
  });
  const options = await resolveConfig(join(top, 'docs', 'any.md'));
  return format(fresh, { ...options, parser: 'markdown' });
}

if (import.meta.main) {
  for (const file of generatedFiles) {
    const path = join(top, file);
    const before = readFileSync(path, 'utf8');
    const after = await regenerate(before);
    if (after !== before) writeFileSync(path, after);
    console.log(`${file}: ${after === before ? 'up to date' : 'written'}`);
  }
}
