/**
 * The parts of the documentation that repeat what the code says. `node scripts/docs.ts` writes them anew;
 * docs.test.ts fails when they are out of date.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { format, resolveConfig } from 'prettier';

import { guards } from '../apps/guards.ts';
import { programOf } from '../apps/program.ts';
import { commandsOf, type NamedCommand } from '../lib/cli/command-tree.ts';
import { exitCodeText, FAILED, helpOf } from '../lib/cli/help.ts';
import { formatWords, schemasOf } from '../lib/cli/output-option.ts';
import { type Guard, type Right, systemNamespace } from '../guard/guard.ts';
import { describeMask } from '../lib/sensor/access.ts';
import { operations, sensorModeNames } from '../lib/sensor/modes.ts';
import { deepTests } from './deep-tests.ts';
import { guardMetrics, type ListedMetric, processMetrics } from './metric-list.ts';
import { ruleGroups } from './monitoring.ts';
import { allowedHelpers } from '../guards/bpf-programs/kernel/tenant/allowed.ts';
import { kernels } from '../guards/bpf-programs/kernel/kernels.fixture.ts';

const top = join(import.meta.dirname, '..');

/** The source of each generated part, by the name in its markers. */
const parts: Readonly<Record<string, () => string | Promise<string>>> = {
  operations: operationsTable,
  'watch help': () => commandHelp('watch'),
  'doctor help': () => commandHelp('doctor'),
  'rights of guards': () => rightsTable(guards),
  'pods of guards': () => podTable(guards),
  'agent metrics': agentMetricsTable,
  'alerting rules': alertingRules,
  'kernels of bpf-programs': bpfKernelsTable,
  'helpers of bpf-programs': bpfHelpersTable,
  'deep tests': deepTestsList,
  commands: commandsTable,
  formats: formatsTable,
  'exit codes': exitCodesTable,
  ...Object.fromEntries(
    guards.flatMap((guard) => [
      [`metrics of ${guard.name}`, () => guardMetricsTable(guard)],
      [`health of ${guard.name}`, () => healthTable(guard)],
      [`example of ${guard.name}`, () => exampleOf(guard)],
    ]),
  ),
};

/** The files that have such parts, by their path from the top of the repository. */
export const generatedFiles: readonly string[] = [
  'CONTRIBUTING.md',
  'deploy/README.md',
  'docs/bpf-programs.md',
  'docs/commands.md',
  'docs/file-access.md',
  'docs/file-integrity.md',
  'docs/monitoring.md',
  'docs/network-policy.md',
  'docs/policy-audit.md',
  'docs/sensor.md',
  'docs/watch.md',
];

/** The modes' operations: lib/sensor/modes.ts as a Markdown table. */
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
  return table(head, rows);
}

/** Which programs run on which kernel, as the probe has found it there; kernels.test.ts compares. */
export function bpfKernelsTable(): string {
  const cell = (answer: string): string => (answer === 'yes' ? 'yes' : code(answer));
  const types = Object.keys(kernels[0]?.can ?? {}) as (keyof (typeof kernels)[number]['can'])[];
  return table(
    ['program', ...kernels.map(({ name }) => name)],
    types.map((type) => [code(type), ...kernels.map(({ can }) => cell(can[type]))]),
  );
}

/** Helpers that programs of namespaced kinds may call. */
function bpfHelpersTable(): string {
  const rows = allowedHelpers.map(({ of, why, only }) => [of.map(code).join(' '), only ?? 'all', why]);
  return table(['helpers', 'of', 'what they reach'], rows);
}

/** Its file in `examples/`. */
function exampleOf({ name }: Guard): string {
  const file = `examples/${name}.yaml`;
  return `[${file}](../${file}):\n\n\`\`\`yaml\n${readFileSync(join(top, file), 'utf8')}\`\`\``;
}

/** Tests that only `npm run test:deep` runs. */
function deepTestsList(): string {
  return deepTests(top)
    .flatMap(({ file, titles }) => [
      `- ${code(file)}${titles.length === 0 ? '' : ':'}`,
      ...titles.map((title) => `  - ${title.replace(/^\$\{.*?\}/, '...')}`),
    ])
    .join('\n');
}

/** Each command with its formats, whether it takes a cluster, and what its exit codes say. */
function commandsTable(): string {
  const commands = [...commandsOf(programOf(guards))];
  const rows = commands.filter(isCommand).map(([name, command]) => {
    const flags = new Set(command.options.map(({ long }) => long));
    const output = command.options.find(({ long }) => long === '--output');
    const places = ['--kubeconfig', '--context', '--namespace', '--data'].filter((flag) => flags.has(flag));
    return [
      code(name.replace(/^rampart /, '')),
      command.summary(),
      output?.argChoices?.join(', ') ?? '',
      schemasOf(command)
        .map((schema) => code(schema.replace('rampart.dev/', '')))
        .join(' '),
      places.map((flag) => code(flag === '--namespace' ? '-n' : flag)).join(' '),
      exitCodeText(helpOf(command)?.exitCodes).replace(`, 2 ${FAILED}`, ''),
    ];
  });
  return table(['command', 'what', '`-o`', '`schema`', 'cluster', 'exit codes'], rows);
}

/** `rampart bpf` alone does nothing. */
function isCommand([, command]: NamedCommand): boolean {
  return (
    command.commands.length === 0 || (command.parent !== null && helpOf(command)?.exitCodes !== undefined)
  );
}

/** The values of `-o`. */
function formatsTable(): string {
  return table(
    ['format', 'what'],
    Object.entries(formatWords).map(([name, what]) => [code(name), what]),
  );
}

function exitCodesTable(): string {
  const codes = {
    0: 'done, or stopped by Ctrl-C or SIGTERM',
    1: 'an answer: something was found, or refused; of a service: it failed',
    2: FAILED,
  };
  return table(['code', 'what'], Object.entries(codes));
}

/** An agent's metrics with any guards. */
function agentMetricsTable(): string {
  return table(['metric', 'kind', 'labels', 'what'], metricRows(processMetrics('agent')));
}

/** A guard's further metrics of the agent and the operator. */
export async function guardMetricsTable(guard: Guard): Promise<string> {
  const { agent, operator } = await guardMetrics(guard);
  const rows = [
    ...metricRows(agent).map((row) => [...row, 'agent']),
    ...metricRows(operator).map((row) => [...row, 'operator']),
  ];
  return table(['metric', 'kind', 'labels', 'what', 'of'], rows);
}

/** By their names: name, kind, labels, what. */
function metricRows(metrics: readonly ListedMetric[]): string[][] {
  return metrics
    .map(({ name, type, labelNames = [], help }) => [code(name), type, labelNames.map(code).join(', '), help])
    .toSorted(([one = ''], [other = '']) => (one < other ? -1 : 1));
}

/** The alerting rules of deploy/monitoring/, with remedies. */
async function alertingRules(): Promise<string> {
  const rules = (await ruleGroups(guards)).flatMap((group) => group.rules);
  const plain = (text: string): string => text.replaceAll(/\{\{ \$labels\.(\w+) \}\}/g, '`$1`');
  return rules
    .map(({ name, severity, what, why, next, expr, for: holds }) =>
      [
        `### ${name}\n`,
        `${severity}. ${plain(what)}\n`,
        `- why: ${why}`,
        `- next: ${next}`,
        `- expression: ${code(expr)}${holds === undefined ? '' : ` for ${holds}`}`,
      ].join('\n'),
    )
    .join('\n\n');
}

/** The parts of /readyz and /healthz that a guard has; nothing where it has none. */
export function healthTable({ name: guard, health = [] }: Guard): string {
  const rows = health.map(({ on, name, what, alive }) => [
    code(on === 'node' ? `${guard}-node-${name}` : `${guard}-${name}`),
    on === 'node' ? 'agent' : 'operator',
    code(alive === true ? '/healthz' : '/readyz'),
    what,
  ]);
  return rows.length === 0
    ? ''
    : `Parts of ${guard} in /readyz and /healthz:\n\n${table(['part', 'of', 'in', 'healthy when'], rows)}`;
}

/** The processes' rights in the API for each guard. */
export function rightsTable(all: readonly Guard[]): string {
  const rows = all.flatMap(({ name, rights: { roles = [], ...rights } }) => [
    ...(['agent', 'operator', 'viewer'] as const).flatMap((who) =>
      (rights[who] ?? []).map((right) => [name, who, ...shownRight(right)]),
    ),
    ...roles.flatMap(({ name: role, rules }) =>
      rules.map((right) => [name, `who is bound to ${code(role)}`, ...shownRight(right)]),
    ),
  ]);
  return table(['guard', 'who', 'what', 'may'], rows);
}

/** The agent's pod for each guard, with reasons. */
export function podTable(all: readonly Guard[]): string {
  const rows = all.flatMap(({ name, pod = {} }) => {
    const { capabilities = [], mounts = [], hostPID, hostNetwork, appArmorUnconfined } = pod;
    const flags = { hostPID, hostNetwork, 'AppArmor `Unconfined`': appArmorUnconfined };
    return [
      ...capabilities.map((one) => [name, `capability ${code(one.name)}`, one.why]),
      ...Object.entries(flags).flatMap(([what, why]) =>
        why === undefined ? [] : [[name, what.includes('`') ? what : code(what), why]],
      ),
      ...mounts.map(({ hostPath, mountPath, readOnly, why }) => [
        name,
        `mount ${code(hostPath)}${hostPath === mountPath ? '' : ` at ${code(mountPath)}`}${readOnly === true ? ', read-only' : ''}`,
        why,
      ]),
    ];
  });
  return table(['guard', 'what', 'why'], rows);
}

function shownRight({ apiGroups, resources, resourceNames = [], verbs, inSystem }: Right): [string, string] {
  const groups = apiGroups.filter((group) => group !== '').join(', ');
  const named = resourceNames.length === 0 ? '' : ` named ${resourceNames.map(code).join(', ')}`;
  const where = inSystem === true ? `, in ${code(systemNamespace)}` : '';
  return [`${resources.map(code).join(', ')}${groups && ` of ${groups}`}${named}${where}`, verbs.join(', ')];
}

function code(text: string): string {
  return `\`${text}\``;
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  return [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n');
}

function commandHelp(command: string): string {
  const help = execFileSync(join(top, 'bin/rampart'), [command, '--help'], { encoding: 'utf8' });
  return `\`\`\`text\n${help.trimEnd()}\n\`\`\``;
}

const part = /(<!-- generated: ([\w -]+) -->)\n.*?(<!-- end -->)/gs;

/** The text of a Markdown file with its generated parts made anew, formatted. */
export async function regenerate(text: string): Promise<string> {
  const made = new Map<string, string>();
  for (const [, , name = ''] of text.matchAll(part)) {
    const make = parts[name];
    if (make === undefined) throw new Error(`nothing is generated under the name "${name}"`);
    made.set(name, await make());
  }
  const fresh = text.replaceAll(
    part,
    (_all, begin: string, name: string, end: string) => `${begin}\n\n${made.get(name) ?? ''}\n\n${end}`,
  );
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
