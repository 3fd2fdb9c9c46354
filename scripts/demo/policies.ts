/**
 * The demo's fifth part: a policy of CEL and one of WebAssembly, objects that were there before, one that is refused, and one
 * that is changed.
 */
import { copyFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

import { answerOf } from './commands.ts';
import { Kubectl, kubectlObstacle, shownKubectl } from './kubectl.ts';
import { leavingNothing } from './leaving-nothing.ts';
import { RampartProcess, rampartProgram } from './rampart-process.ts';
import type { PartOptions, Shown } from './shown.ts';
import { TemporaryDirectory } from './temporary-directory.ts';

const WAIT_MS = 20_000;
const PACE_MS = 50;
const listen = '127.0.0.1:7444';
const metrics = '127.0.0.1:7445';

/** A module of the tests, written in C: it requires the labels in its settings. */
const labelsModule = fileURLToPath(new URL('../../test/policies/labels.wapc.wasm', import.meta.url));

const rule = `  rules:
    - { apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE, UPDATE] }
  namespaceSelector: { matchLabels: { kubernetes.io/metadata.name: shop } }
`;
const celPolicy = `apiVersion: policies.kubewarden.io/v1
kind: ClusterAdmissionPolicy
metadata: { name: no-passwords }
spec:
  module: registry://registry.example/policies/cel-policy:v1.0.0
  mutating: false
${rule}  settings:
    validations:
      - expression: "!has(object.data) || !object.data.exists(key, key.contains('password'))"
        message: passwords belong in a Secret
`;
const wasmPolicy = (module: string): string => `apiVersion: policies.kubewarden.io/v1
kind: ClusterAdmissionPolicy
metadata: { name: has-team }
spec:
  module: file://${module}
  mutating: false
  mode: monitor
${rule}  settings: { required: [team] }
`;

/** Why it cannot be shown on this machine; undefined when it can. */
export function policiesObstacle(): string | undefined {
  if (process.geteuid?.() !== 0) return 'rampart standalone needs root';
  return kubectlObstacle();
}

/** All that it starts is gone when this settles, and it has looked whether it is. */
export async function showPolicies(options: PartOptions): Promise<Shown> {
  const { screen, signal } = options;
  return leavingNothing(options, async ({ stack, traces, checks }) => {
    screen.heading('5. Policies');
    const directory = stack.use(new TemporaryDirectory()).path;
    traces.addDirectory(directory);
    stack.defer(() => traces.look());
    const words = ['standalone', '--guards', 'policy-audit', '--data', 'data', '--listen', listen];
    screen.step('An API for this machine, with one guard, and objects that nobody has looked at yet:');
    screen.command(`rampart ${words.join(' ')}`);
    const standalone = stack.use(
      new RampartProcess({ words: [...words, '--metrics', metrics], directory, signal }),
    );
    stack.defer(() => traces.addProcess(standalone.pid, 'rampart'));
    await screen.during('the API starts', standalone.says(/serving https/));
    const kubectl = new Kubectl({ kubeconfig: join(directory, 'data/kubeconfig'), directory, signal });
    const show = (...more: string[]): Promise<string> => shownKubectl({ screen, kubectl }, ...more);
    const evaluations = async (): Promise<number> => {
      const text = await (await fetch(`http://${metrics}/metrics`, { signal })).text();
      const lines = text.matchAll(/^rampart_policy_audit_evaluations_total\{.*\} (\d+)$/gm);
      return [...lines].reduce((sum, [, count]) => sum + Number(count), 0);
    };
    const until = async (holds: () => Promise<boolean>): Promise<boolean> => {
      const endsAtMs = performance.now() + WAIT_MS;
      while (performance.now() < endsAtMs) {
        if (await holds()) return true;
        await sleep(PACE_MS, undefined, { signal });
      }
      return false;
    };

    await kubectl.run('create', 'namespace', 'shop');
    await show('create', 'configmap', 'old', '-n', 'shop', '--from-literal', 'password=secret');
    await show('create', 'configmap', 'fine', '-n', 'shop', '--from-literal', 'colour=red');
    copyFileSync(labelsModule, join(directory, 'labels.wasm'));
    writeFileSync(
      join(directory, 'policies.yaml'),
      `${celPolicy}---\n${wasmPolicy(join(directory, 'labels.wasm'))}`,
    );
    screen.step('A policy of CEL that protects, and one of WebAssembly that monitors:');
    screen.command('cat policies.yaml');
    screen.answer(`${celPolicy}---\n${wasmPolicy('$PWD/labels.wasm')}`.trimEnd());
    await show('apply', '-f', 'policies.yaml');
    const audited = await screen.during(
      'the reports',
      until(async () => (await evaluations()) >= 4),
    );
    checks.add('objects evaluated', 'all', audited ? 'all' : 'not all');
    await screen.during(
      'the policies are active',
      kubectl.until(
        ['get', 'clusteradmissionpolicies'],
        (said) => (said.match(/ active /g)?.length ?? 0) === 2,
      ),
    );
    await show('get', 'clusteradmissionpolicies');
    screen.step('What was there before has its report:');
    const reports = await show('get', 'policyreports', '-n', 'shop', '-o', 'wide');
    checks.add(
      'report of old',
      '0 pass, 2 fail',
      /ConfigMap +old +0 +2 /.test(reports) ? '0 pass, 2 fail' : 'another',
    );
    checks.add(
      'report of fine',
      '1 pass, 1 fail',
      /ConfigMap +fine +1 +1 /.test(reports) ? '1 pass, 1 fail' : 'another',
    );

    screen.step('A new one is refused:');
    const refused = await show(
      'create',
      'configmap',
      'new',
      '-n',
      'shop',
      '--from-literal',
      'db-password=secret',
    );
    const isRefused = refused.includes(
      'admission webhook "clusterwide-no-passwords.kubewarden.admission" denied the request: passwords belong in a Secret',
    );
    checks.add('kubectl create', 'refused', isRefused ? 'refused' : 'not refused');

    screen.step('A label is changed: that object alone is evaluated again, by both policies.');
    const before = await evaluations();
    await show('label', 'configmap', 'fine', '-n', 'shop', 'team=blue');
    await screen.during(
      'the report',
      until(async () => (await evaluations()) > before + 1),
    );
    await sleep(300, undefined, { signal });
    screen.command(`curl -s ${metrics}/metrics | grep rampart_policy_audit_evaluations_total`);
    const evaluated = (await evaluations()) - before;
    screen.answer(`${evaluated} evaluations more than before`);
    checks.add('evaluations', '2', String(evaluated));
    screen.command('rampart audit explain configmap/fine -n shop --data data');
    const env = { PATH: process.env['PATH'], HOME: directory };
    const told = await answerOf(
      [rampartProgram, 'audit', 'explain', 'configmap/fine', '-n', 'shop', '--data', 'data'],
      { cwd: directory, env, signal },
    );
    screen.answer(told.said.trimEnd());
    const passes = told.said.match(/ pass +report, evaluated/g)?.length ?? 0;
    checks.add('explained', '2 pass', `${passes} pass`);
  });
}
