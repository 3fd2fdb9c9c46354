/**
 * The demo's fifth part: a policy of CEL and one of WebAssembly, objects that were there before, one that is refused, and one
 * that is changed.
 */
import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { kubectl, type Part } from './stage.ts';

/** A module of the tests, written in C: it requires the labels in its settings. */
const labelsModule = join(import.meta.dirname, '../../test/policies/labels.wapc.wasm');
const rule = `  rules:
    - { apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE, UPDATE] }
  namespaceSelector: { matchLabels: { kubernetes.io/metadata.name: shop } }
`;
const manifestIn = (directory: string): string => `apiVersion: policies.kubewarden.io/v1
kind: ClusterAdmissionPolicy
metadata: { name: no-passwords }
spec:
  module: registry://registry.example/policies/cel-policy:v1.0.0
  mutating: false
${rule}  settings:
    validations:
      - expression: "!has(object.data) || !object.data.exists(key, key.contains('password'))"
        message: passwords belong in a Secret
---
apiVersion: policies.kubewarden.io/v1
kind: ClusterAdmissionPolicy
metadata: { name: has-team }
spec:
  module: file://${directory}/labels.wasm
  mutating: false
  mode: monitor
${rule}  settings: { required: [team] }
`;

export const policies: Part = {
  name: 'policies',
  title: 'Policies',
  packages: kubectl,
  async play(stage) {
    const { screen, signal } = stage;
    screen.step('An API for this machine, with one guard, and objects that nobody has looked at yet:');
    const standalone = await stage.standalone('--guards policy-audit --metrics 127.0.0.1:0');
    const metrics = /metrics on (\S+)/.exec(standalone.stderr)?.[1] ?? '';
    const evaluations = async (): Promise<number> => {
      const text = await (await fetch(metrics, { signal })).text();
      const lines = text.matchAll(/^rampart_policy_audit_evaluations_total\{.*\} (\d+)$/gm);
      return [...lines].reduce((sum, [, count]) => sum + Number(count), 0);
    };
    const create = async (name: string, data: string): Promise<string> =>
      await stage.type(`kubectl create configmap ${name} -n shop --from-literal ${data}`);
    await stage.run('kubectl create namespace shop');
    await create('old', 'password=secret');
    await create('fine', 'colour=red');

    copyFileSync(labelsModule, stage.at('labels.wasm'));
    stage.write('policies.yaml', manifestIn(stage.directory));
    screen.step('A policy of CEL that protects, and one of WebAssembly that monitors:');
    await stage.type('cat policies.yaml');
    await stage.type('kubectl apply -f policies.yaml');
    const isAll = (count: number): boolean => count >= 4;
    const audited = await screen.during('the reports', stage.until(evaluations, isAll));
    stage.check('objects evaluated', 'all', isAll(audited));
    await stage.type('kubectl get clusteradmissionpolicies', { until: / active [^]* active / });
    screen.step('What was there before has its report:');
    const reports = await stage.type('kubectl get policyreports -n shop -o wide');
    for (const [name, expected] of Object.entries({ old: '0 pass, 2 fail', fine: '1 pass, 1 fail' })) {
      const [, pass, fail] = new RegExp(`ConfigMap +${name} +(\\d+) +(\\d+) `).exec(reports) ?? [];
      stage.check(`report of ${name}`, expected, `${pass} pass, ${fail} fail`);
    }

    screen.step('A new one is refused:');
    const said = await create('new', 'db-password=secret');
    const refusal = /"clusterwide-no-passwords\S+" denied the request: passwords belong in a Secret$/;
    stage.check('kubectl create', 'refused', refusal.test(said));

    screen.step('A label is changed: that object alone is evaluated again, by both policies.');
    const before = await evaluations();
    await stage.type('kubectl label configmap fine -n shop team=blue');
    await stage.until(evaluations, (count) => count > before + 1);
    await sleep(300, undefined, { signal });
    const evaluated = (await evaluations()) - before;
    screen.answer(`${evaluated} evaluations more in rampart_policy_audit_evaluations_total at ${metrics}`);
    stage.check('evaluations', '2', String(evaluated));
    const reported = await stage.type('rampart audit explain configmap/fine -n shop --data data');
    stage.check('explained', '2 pass', `${reported.match(/ pass +report, evaluated/g)?.length ?? 0} pass`);
  },
};
