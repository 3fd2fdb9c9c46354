// The chart as helm renders it, against kustomize: for the same choice, the same objects.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import { stringify } from 'yaml';

import { RampartProcess } from '../apps/apiserver/rampart-process.fixture.ts';
import { guards } from '../apps/guards.ts';
import { deepTest, sampled, seed } from '../lib/testing/depth.fixture.ts';
import { TemporaryDirectory } from '../lib/testing/temporary-directory.fixture.ts';
import { extraValue, uiExtra } from './chart.ts';
import { ChartTemplate } from './chart-template.ts';
import { camelCase, valueOptions } from './chart-values.ts';
import { type DeployChoice, extras, kustomizationOf, objectsOf, policyReports } from './deploy-choice.ts';
import { kubernetesPrograms } from './kubernetes-programs.ts';
import { writeChart } from './release/archives.ts';
import { kustomizeOf, type Manifest, objectsIn } from './kustomize.ts';

const deploy = join(import.meta.dirname, '../deploy');
const names = guards.map(({ name }) => name);
const programs = kubernetesPrograms();
const skip = programs === undefined && 'needs helm, which scripts/setup test fetches';

function helm(values: object, ...more: string[]) {
  using directory = new TemporaryDirectory();
  const file = directory.at('values.yaml');
  writeFileSync(file, stringify(values));
  const args = ['template', 'mine', join(deploy, 'chart'), '--values', file, ...more];
  const { status, stdout, stderr } = spawnSync(programs?.helm ?? '', args, {
    encoding: 'utf8',
    env: { HOME: directory.path, PATH: process.env['PATH'] },
    maxBuffer: 2 ** 27,
  });
  return { status, stdout, stderr };
}

function rendered(values: object, ...more: string[]): Manifest[] {
  const { status, stdout, stderr } = helm(values, ...more);
  assert.equal(status, 0, stderr);
  return objectsIn(stdout);
}

/** By their names, without what only Helm needs; lists that are merged by a key, as they have no order. */
function comparable(objects: readonly Manifest[]): ReadonlyMap<string, unknown> {
  const byName = objects.map((object): [string, unknown] => {
    const { annotations, ...metadata } = object.metadata as Manifest['metadata'] & { annotations?: object };
    const { 'helm.sh/resource-policy': _keep, ...others } = { ...annotations } as Record<string, string>;
    const isAnnotated = Object.keys(others).length > 0;
    const own = { ...object, metadata: isAnnotated ? { ...metadata, annotations: others } : metadata };
    const copy = (object.kind === 'DaemonSet' ? structuredClone(own) : own) as Manifest & {
      spec?: { template?: { spec?: Record<string, unknown> } };
    };
    const sort = (list: unknown): unknown =>
      (list as { name: string }[] | undefined)?.sort((one, other) => (one.name < other.name ? -1 : 1));
    const spec = copy.kind === 'DaemonSet' ? copy.spec?.template?.spec : undefined;
    sort(spec?.['volumes']);
    for (const container of (spec?.['containers'] ?? []) as { volumeMounts?: unknown }[])
      sort(container.volumeMounts);
    return [`${copy.kind} ${copy.metadata.namespace ?? ''}/${copy.metadata.name}`, copy];
  });
  const result = new Map(byName.toSorted(([one], [other]) => (one < other ? -1 : 1)));
  assert.equal(result.size, objects.length, 'an object twice');
  return result;
}

function valuesOf({ guards: chosen, extras: also }: DeployChoice): Record<string, Record<string, unknown>> {
  return {
    guards: Object.fromEntries(names.map((name) => [camelCase(name), { enabled: chosen.includes(name) }])),
    components: Object.fromEntries(
      also.filter((extra) => extra !== uiExtra).map((extra) => [extraValue(extra), true]),
    ),
    ui: { enabled: also.includes(uiExtra) },
  };
}

const title = ({ guards: chosen, extras: also }: DeployChoice): string =>
  [...(chosen.length === names.length ? ['all guards'] : chosen), ...also].join(', ') || 'no guard';

const everything: DeployChoice = { guards: names, extras };
const few: readonly DeployChoice[] = [{ guards: names, extras: [] }, everything, { guards: [], extras: [] }];
const more: readonly DeployChoice[] = [
  ...names.map((name) => ({ guards: [name], extras: [] })),
  ...names.map((name) => ({ guards: names.filter((one) => one !== name), extras: [] })),
  ...extras.map((extra) => ({ guards: names, extras: [extra] })),
];

suite(`the chart (RAMPART_TEST_SEED=${seed})`, { skip }, () => {
  const equal = (choice: DeployChoice): void => {
    assert.deepEqual(comparable(rendered(valuesOf(choice))), comparable(objectsOf(choice, deploy)));
  };
  for (const choice of few) test(`${title(choice)}: as kustomize`, () => equal(choice));
  const short = sampled(more, 1);
  for (const choice of more)
    (short.includes(choice) ? test : deepTest)(`${title(choice)}: as kustomize`, () => equal(choice));

  test('image, resources, tolerations and options are those of the values', () => {
    const digest = `sha256:${'a'.repeat(64)}`;
    const values = {
      image: { repository: 'registry.example:5000/rampart', digest, pullPolicy: 'Always' },
      imagePullSecrets: [{ name: 'registry' }],
      guards: {
        fileAccess: { allowCallback: ['10.0.0.0/8', 'receiver.example'], kivePolicyNamespaces: ['*'] },
        networkPolicy: {
          networkPolicyDefault: 'deny',
          networkPolicyLogGroup: [100, 101],
          networkPolicyKeepRules: true,
        },
        bpfPrograms: { bpfTenantMapMemory: 2_000_000 },
      },
      agent: {
        mode: 'kprobe',
        args: ['--otlp-endpoint=https://collector.example'],
        resources: { limits: { memory: '1Gi' } },
        tolerations: [],
        nodeSelector: { disk: 'ssd' },
      },
      operator: { replicas: 3, tolerations: [{ operator: 'Exists' }], args: ['--reports-by=namespace'] },
    };
    const added = (kind: string, name: string, operations: readonly (readonly [string, unknown])[]) => ({
      target: { kind, name },
      patch: JSON.stringify(
        operations.map(([path, value]) => ({ op: 'add', path: `/spec/template/spec/${path}`, value })),
      ),
    });
    const first = 'containers/0';
    const shared = [
      ['imagePullSecrets', [{ name: 'registry' }]],
      [`${first}/imagePullPolicy`, 'Always'],
    ] as const;
    const patches = [
      added('DaemonSet', 'rampart-agent', [
        ...shared,
        ...[
          ...['--allow-callback=10.0.0.0/8', '--allow-callback=receiver.example'],
          ...['--kive-policy-namespaces=*', '--mode=kprobe', '--network-policy-default=deny'],
          ...['--network-policy-log-group=100', '--network-policy-log-group=101'],
          ...['--network-policy-keep-rules', '--bpf-tenant-map-memory=2000000'],
          '--otlp-endpoint=https://collector.example',
        ].map((arg): [string, string] => [`${first}/args/-`, arg]),
        // Helm merges maps with its defaults.
        [`${first}/resources/limits/memory`, '1Gi'],
        ['nodeSelector/disk', 'ssd'],
        ['tolerations', []],
      ]),
      added('Deployment', 'rampart-operator', [
        ...shared,
        [`${first}/args/-`, '--kive-policy-namespaces=*'],
        [`${first}/args/-`, '--reports-by=namespace'],
        ['tolerations', [{ operator: 'Exists' }]],
      ]),
      {
        target: { kind: 'Deployment', name: 'rampart-operator' },
        patch: JSON.stringify([{ op: 'replace', path: '/spec/replicas', value: 3 }]),
      },
    ];
    const image = `${values.image.repository}@${digest}`;
    const expected = kustomizeOf(
      { ...kustomizationOf({ ...few[0], ...everything, extras: [], image }), patches },
      deploy,
    );
    const found = comparable(rendered(values));
    assert.deepEqual(argsSorted(found), argsSorted(comparable(expected)));
  });

  test('every option of a guard has a value, and the value is used', () => {
    const options = valueOptions(guards);
    const values: Record<string, unknown> = {};
    for (const { value, kind, flag } of options) {
      const path = value.split('.').slice(2);
      const last = path.pop() ?? '';
      let at = values;
      for (const key of path) at = (at[key] ??= {}) as Record<string, unknown>;
      const choices = guards
        .flatMap(({ options: all = [] }) => all)
        .find(({ flags }) => flags.split(' ')[0] === flag)?.choices;
      const text = choices?.at(-1) ?? 'x';
      at[last] = { flag: true, list: [text], text }[kind];
    }
    const objects = rendered(values);
    for (const who of ['agent', 'operator'] as const) {
      const args = argsOf(objects, `rampart-${who}`).map((arg) => arg.replace(/=.*/, ''));
      for (const { flag, on } of options)
        assert.equal(args.includes(flag), on.includes(who), `${flag} of ${who}`);
    }
  });

  test('a value that does not exist, and one that cannot work, are refused by name', () => {
    for (const [values, message] of [
      [{ guards: { fileAcces: { enabled: true } } }, /fileAcces/],
      [{ guards: { networkPolicy: { networkPolicyDefault: 'maybe' } } }, /networkPolicyDefault/],
      [{ image: { digest: 'sha256:1' } }, /digest/],
    ] as const) {
      const { status, stderr } = helm(values);
      assert.notEqual(status, 0);
      assert.match(stderr, message);
    }
  });

  test('in the namespace that it is installed into, Helm makes that, and no definition goes with the release', () => {
    const objects = rendered({}, '--namespace', 'rampart-system');
    assert.ok(!objects.some(({ kind }) => kind === 'Namespace'));
    const definitions = objects.filter(({ kind }) => kind === 'CustomResourceDefinition');
    assert.ok(definitions.length > 20);
    for (const { metadata } of definitions) {
      const { annotations } = metadata as { annotations?: Record<string, string> };
      assert.equal(annotations?.['helm.sh/resource-policy'], 'keep');
    }
  });

  test('helm has no objections, also to the archive of a release', () => {
    using directory = new TemporaryDirectory();
    const archive = directory.at('rampart.tgz');
    writeChart(join(deploy, '..'), archive, { epoch: 0, level: 1 });
    const { status, stdout } = spawnSync(programs?.helm ?? '', ['lint', '--strict', archive], {
      encoding: 'utf8',
      env: { HOME: directory.path },
    });
    assert.equal(status, 0, stdout);
  });
});

deepTest('kubectl makes of a kustomization what the rest is compared with', { skip }, () => {
  using directory = new TemporaryDirectory();
  const { resources = [], components = [], ...rest } = kustomizationOf(everything);
  const paths = (list: readonly string[]): string[] => list.map((path) => join('../deploy', path));
  // kubectl reads nothing above the kustomization by an absolute path.
  const copied = spawnSync('cp', ['-r', deploy, directory.at('deploy')]);
  assert.equal(copied.status, 0);
  spawnSync('mkdir', [directory.at('mine')]);
  const overlay = { ...rest, resources: paths(resources), components: paths(components) };
  writeFileSync(directory.at('mine/kustomization.yaml'), stringify(overlay));
  const [ours, theirs] = [
    objectsOf(everything, deploy),
    ['mine', `deploy/${policyReports}`].flatMap((path) => {
      const ran = spawnSync(programs?.kubectl ?? '', ['kustomize', directory.at(path)], {
        encoding: 'utf8',
        maxBuffer: 2 ** 27,
      });
      assert.equal(ran.status, 0, ran.stderr);
      return objectsIn(ran.stdout);
    }),
  ];
  assert.deepEqual(comparable(theirs), comparable(ours));
});

deepTest(
  'installed, upgraded with fewer guards and uninstalled, with the objects of users',
  { skip },
  async () => {
    using directory = new TemporaryDirectory();
    await using server = await RampartProcess.apiServer(
      '--data',
      directory.at('data'),
      '--listen',
      '127.0.0.1:0',
    );
    const env = { PATH: process.env['PATH'], HOME: directory.path, KUBECONFIG: await server.ready };
    const run = (program: string | undefined, ...args: string[]): string => {
      const { status, stdout, stderr } = spawnSync(program ?? '', args, {
        env,
        encoding: 'utf8',
        maxBuffer: 2 ** 27,
      });
      assert.equal(status, 0, stderr);
      return stdout;
    };
    const [chart, namespace] = [join(deploy, 'chart'), ['--namespace', 'rampart-system']];
    const agent = (): Manifest =>
      JSON.parse(
        run(programs?.kubectl, 'get', 'daemonset', ...namespace, 'rampart-agent', '-o', 'json'),
      ) as Manifest;
    run(
      programs?.helm,
      'install',
      'mine',
      chart,
      ...namespace,
      '--create-namespace',
      '--set',
      'components.policyReports=true',
    );
    assert.ok(argsOf([agent()], 'rampart-agent').includes('--guards=bpf-programs'));
    const policy = {
      ...{ apiVersion: 'kivebpf.san7o.github.io/v2alpha1', kind: 'KivePolicy' },
      metadata: { name: 'mine', namespace: 'default' },
      spec: { traps: [{ path: '/etc/shadow', matchAny: [{ pod: 'nginx' }] }] },
    };
    writeFileSync(directory.at('policy.yaml'), stringify(policy));
    run(programs?.kubectl, 'apply', '-f', directory.at('policy.yaml'));
    run(programs?.helm, 'upgrade', 'mine', chart, ...namespace, '--set', 'guards.bpfPrograms.enabled=false');
    assert.ok(!argsOf([agent()], 'rampart-agent').includes('--guards=bpf-programs'));
    run(programs?.helm, 'uninstall', 'mine', ...namespace);
    assert.equal(
      run(programs?.kubectl, 'get', 'daemonsets,deployments,clusterroles', '-A', '-o', 'name'),
      '',
    );
    const kept = run(programs?.kubectl, 'get', 'kivepolicies', '-o', 'name');
    assert.equal(kept, 'kivepolicy.kivebpf.san7o.github.io/mine\n');
  },
);

suite('templates', () => {
  const object = (spec: object): Manifest => ({
    apiVersion: 'apps/v1',
    kind: 'DaemonSet',
    metadata: { name: 'a' },
    spec,
  });

  test('parts of two components exist with either, and an empty list is kept', () => {
    const template = new ChartTemplate(
      object({ hosts: [], template: { spec: { containers: [{ name: 'c' }] } } }),
    );
    template.patch([{ op: 'add', path: '/spec/hosts/-', value: 'a {{ b }}' }], '.Values.one');
    const mounts = { name: 'c', volumeMounts: [{ mountPath: '/m', name: 'm' }] };
    for (const when of ['.Values.one', '.Values.two'])
      template.patch({ spec: { template: { spec: { hostPID: true, containers: [mounts] } } } }, when);
    assert.equal(
      template.text(),
      `apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: a
spec:
  {{- if .Values.one }}
  hosts:
    {{- if .Values.one }}
    - a {{ "{{" }} b }}
    {{- end }}
  {{- else }}
  hosts: []
  {{- end }}
  template:
    spec:
      containers:
        - name: c
          {{- if or .Values.one .Values.two }}
          volumeMounts:
            - mountPath: /m
              name: m
          {{- end }}
      {{- if or .Values.one .Values.two }}
      hostPID: true
      {{- end }}
`,
    );
  });

  test('a kustomization that a chart cannot express is an error', () => {
    const template = new ChartTemplate(object({ replicas: 1 }));
    assert.throws(
      () => template.patch({ spec: { replicas: 2 } }, '.Values.one'),
      /cannot express: two values of replicas/,
    );
    assert.throws(
      () => template.patch([{ op: 'remove', path: '/spec' }], '.Values.one'),
      /cannot express: remove \/spec/,
    );
  });
});

/** The order of options means nothing. */
function argsSorted(objects: ReadonlyMap<string, unknown>): Map<string, unknown> {
  const copy = new Map(structuredClone([...objects]));
  for (const object of copy.values() as Iterable<Workload>)
    for (const { args } of object.spec?.template?.spec?.containers ?? []) args?.sort();
  return copy;
}

interface Workload {
  readonly metadata: { readonly name: string };
  readonly spec?: {
    readonly template?: { readonly spec?: { readonly containers?: readonly { args?: string[] }[] } };
  };
}

function argsOf(objects: readonly Manifest[], name: string): readonly string[] {
  const found = objects.find(
    ({ kind, metadata }) => metadata.name === name && /Set$|^Deployment$/.test(kind),
  );
  return (found as unknown as Workload).spec?.template?.spec?.containers?.[0]?.args ?? [];
}
