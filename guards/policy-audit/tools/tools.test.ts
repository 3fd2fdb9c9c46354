import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { type CommandEnded, Commands } from '../../../apps/commands.fixture.ts';
import { errorCodes } from '../../../lib/errors/errors.ts';
import { digestOf } from '../../../lib/oci/digest.ts';
import { RegistryFixture } from '../../../lib/oci/registry.fixture.ts';
import { signAs } from '../../../lib/oci/signatures/signing.fixture.ts';
import { SigstoreFixture } from '../../../lib/oci/signatures/sigstore.fixture.ts';
import { readPolicies } from './policy-source.ts';
import { renderRun, type RunFormat } from './render-run.ts';
import { exitCodeOf, type Run, runPolicies } from './run-policies.ts';
import { readSubjects } from './subjects.ts';

const top = join(import.meta.dirname, '../../..');
const modules = join(top, 'test/policies');

let directory: string;
let commands: Commands;
suite('tools for policies', () => {
  before(() => {
    directory = mkdtempSync(join(tmpdir(), 'rampart-policy-'));
    commands = new Commands(directory);
  });
  after(async () => {
    await commands[Symbol.asyncDispose]();
    rmSync(directory, { recursive: true, force: true });
  });

  /** The command as people have it. */
  function rampart(...args: string[]): Promise<CommandEnded> {
    return commands.run(['policy', ...args], { HOME: directory, XDG_CACHE_HOME: '', DOCKER_CONFIG: '' });
  }

  const at = (path: string): string => (path.startsWith('/') ? path : join(directory, path));

  /** The same in this process. */
  async function ran(name: string, objects: string, settings?: Record<string, unknown>): Promise<Run> {
    return runPolicies(readPolicies(at(name), settings), readSubjects([at(objects)]), {
      modules: {
        fetch: async (url) => {
          const bytes = readFileSync(fileURLToPath(url));
          return { bytes, digest: digestOf(bytes) };
        },
      },
      hostCalls: () => ({ call: () => Promise.reject(new Error('not granted')) }),
    });
  }

  function rendered(run: Run, format: RunFormat): string {
    return renderRun(run, format, { widthColumns: 100, colour: false, all: false, version: '0.0.0' });
  }

  function write(path: string, content: string): string {
    const file = join(directory, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, content);
    return path;
  }

  const policy = (name: string, spec: string, kind = 'ClusterAdmissionPolicy'): string => `
apiVersion: policies.kubewarden.io/v1
kind: ${kind}
metadata: {name: ${name}}
spec:
  module: registry://registry.example/policies/cel-policy:v1
  mutating: false
  rules: [{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}]
${spec}
`;
  const noLatest = policy(
    'no-latest',
    `  settings:
    validations:
      - expression: "!object.spec.containers.exists(c, c.image.endsWith(':latest'))"
        message: latest is not a version
`,
  );
  const pod = (name: string, image: string): string =>
    `apiVersion: v1\nkind: Pod\nmetadata: {name: ${name}, namespace: shop}\nspec: {containers: [{name: a, image: "${image}"}]}\n`;

  suite('rampart policy run', () => {
    test('a directory: what passes, what fails, what no policy is about; with lines', async () => {
      write('run/bad.yaml', `# a comment\n${pod('web', 'x:latest')}---\n${pod('api', 'x:1')}`);
      write('run/below/good.yml', pod('db', 'x:2'));
      write('run/below/values.yaml', 'replicas: 1\n');
      write(
        'run/service.json',
        JSON.stringify({ apiVersion: 'v1', kind: 'Service', metadata: { name: 's' } }),
      );
      write('policy.yaml', noLatest);
      const { code, stdout } = await rampart('run', 'policy.yaml', '-r', 'run');
      assert.equal(code, 1);
      assert.match(
        stdout,
        /fail +clusterwide-no-latest +Pod shop\/web +run\/bad\.yaml:3\n +latest is not a version/,
      );
      assert.match(stdout, /2 pass, 1 fail, 0 error, 1 not matched/);
      const good = await rampart('run', 'policy.yaml', '-r', 'run/below');
      assert.deepEqual([good.code, good.stdout], [0, '1 pass, 0 fail, 0 error, 0 not matched\n']);
    });

    test('as JSON, JUnit and SARIF', async () => {
      const file = join(directory, write('formats/bad.yaml', pod('"a<&>b"', 'x:latest')));
      const run = await ran(write('policy.yaml', noLatest), 'formats');
      const { summary, results } = JSON.parse(rendered(run, 'json')) as {
        summary: object;
        results: object[];
      };
      assert.deepEqual(summary, { pass: 0, fail: 1, error: 0, skip: 0 });
      assert.deepEqual(results, [
        {
          policy: 'clusterwide-no-latest',
          result: 'fail',
          message: 'latest is not a version',
          code: 400,
          object: 'Pod shop/a<&>b',
          file,
          line: 2,
        },
      ]);
      const junit = rendered(run, 'junit');
      assert.match(
        junit,
        /<testsuite name="clusterwide-no-latest" tests="1" failures="1" errors="0" skipped="0">/,
      );
      assert.match(junit, /<testcase name="Pod shop\/a&lt;&amp;&gt;b"/);
      const sarif = JSON.parse(rendered(run, 'sarif')) as {
        runs: { results: { locations: object[]; ruleId: string }[] }[];
      };
      const [found] = sarif.runs[0]?.results ?? [];
      assert.equal(found?.ruleId, 'clusterwide-no-latest');
      assert.deepEqual(found.locations, [
        {
          physicalLocation: {
            artifactLocation: { uri: relative(process.cwd(), file) },
            region: { startLine: 2 },
          },
        },
      ]);
    });

    test('errors are exit code 2: files, policies, modules, evaluations', async () => {
      write('policy.yaml', noLatest);
      write('broken/a.yaml', 'kind: [\n');
      const broken = await rampart('run', 'policy.yaml', '-r', 'broken');
      assert.deepEqual([broken.code, /not checked: broken\/a\.yaml/.test(broken.stdout)], [2, true]);
      write('ok/a.yaml', pod('web', 'x:1'));
      const trap = await ran(join(modules, 'unruly.wapc.wasm'), 'ok', { do: 'trap' });
      assert.deepEqual([exitCodeOf(trap), trap.results[0]?.result], [2, 'error']);
      const settings = await ran(join(modules, 'labels.wapc.wasm'), 'ok', {});
      assert.deepEqual(settings.problems, [
        'labels.wapc: its settings are invalid: settings need a list named required',
      ]);
      assert.equal(exitCodeOf(settings), 2);
      const ofKubernetes = (kind: string): string =>
        `apiVersion: admissionregistration.k8s.io/v1\nkind: ${kind}\nmetadata: {name: x}\nspec: {validation: []}\n`;
      write('misspelled.yaml', ofKubernetes('ValidatingAdmissionPolicy'));
      write('mutating.yaml', ofKubernetes('MutatingAdmissionPolicy'));
      write('unknown.yaml', policy('x', '  settings: {}\n  modules: y\n'));
      const wrong: readonly (readonly [() => unknown, RegExp])[] = [
        [
          () => {
            writeFileSync(at('page.wasm'), '<!DOCTYPE html>\n<html></html>');
            return readPolicies(at('page.wasm'), undefined);
          },
          /page\.wasm is not a policy: it is an HTML page/,
        ],
        [() => readPolicies('none.yaml', undefined), /cannot read none\.yaml/],
        [
          () => readPolicies(at('unknown.yaml'), undefined),
          /unknown\.yaml:\d+: ClusterAdmissionPolicy x: unknown field "spec\.modules"/,
        ],
        [
          () => readPolicies(at('misspelled.yaml'), undefined),
          /misspelled\.yaml:\d+: ValidatingAdmissionPolicy x: unknown field "spec\.validation"/,
        ],
        [
          () => readPolicies(at('mutating.yaml'), undefined),
          /mutating\.yaml:\d+: MutatingAdmissionPolicy x: unknown field "spec\.validation"/,
        ],
        [() => readPolicies(at('ok/a.yaml'), undefined), /has no policies/],
        [() => readPolicies(at('policy.yaml'), {}), /whose policies have their own/],
        [() => readSubjects([at('nowhere')]), /cannot read .*nowhere/],
      ];
      for (const [read, message] of wrong) assert.throws(read, { code: errorCodes.INPUT, message });
      const missing = await rampart('run', 'policy.yaml');
      assert.deepEqual([missing.code, /--resource/.test(missing.stderr)], [2, true], missing.stderr);
      const nowhere = await rampart('run', 'policy.yaml', '-r', 'nowhere');
      assert.equal(nowhere.code, 2);
    });

    test('a custom resource is changed by the schema of its definition, if that is among the manifests', async () => {
      const definition = (schema: object): string =>
        JSON.stringify({
          ...{ apiVersion: 'apiextensions.k8s.io/v1', kind: 'CustomResourceDefinition' },
          metadata: { name: 'boxes.example.com' },
          spec: {
            ...{ group: 'example.com', scope: 'Namespaced', names: { kind: 'Box', plural: 'boxes' } },
            versions: [{ name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: schema } }],
          },
        });
      const items = { type: 'object', properties: { name: { type: 'string' }, size: { type: 'integer' } } };
      const keyed = { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['name'] };
      const parts = { type: 'array', ...keyed, items };
      const spec = { type: 'object', properties: { parts } };
      write(
        'parts.yaml',
        `apiVersion: admissionregistration.k8s.io/v1beta1
kind: MutatingAdmissionPolicy
metadata: {name: parts}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [example.com], apiVersions: [v1], resources: [boxes], operations: [CREATE]}]
  reinvocationPolicy: Never
  mutations:
    - patchType: ApplyConfiguration
      applyConfiguration:
        expression: >-
          Object{spec: Object.spec{parts: [Object.spec.parts{name: "lid", size: 2}]}}
`,
      );
      const box = (part: string): string =>
        `apiVersion: example.com/v1\nkind: Box\nmetadata: {name: b}\nspec: {parts: [{name: ${part}}]}\n`;
      write('boxes/box.yaml', box('lid'));
      const without = await ran('parts.yaml', 'boxes');
      assert.match(without.results[0]?.message ?? '', /parts/);
      assert.equal(without.results[0]?.result, 'error');

      write('boxes/definition.json', definition({ type: 'object', properties: { spec } }));
      const { problems, results } = await ran('parts.yaml', 'boxes');
      assert.deepEqual(problems, []);
      assert.deepEqual(
        results.filter(({ result }) => result !== 'skip').map(({ result, patch }) => [result, patch]),
        [['pass', [{ op: 'add', path: '/spec/parts/0/size', value: 2 }]]],
      );

      write('boxes/definition.json', definition({ type: 'object', properties: 5 }));
      const broken = await ran('parts.yaml', 'boxes');
      assert.match(
        broken.problems.join(),
        /box\.yaml:\d+: the schema of boxes\.example\.com cannot be used: /,
      );
      assert.equal(exitCodeOf(broken), 2);
    });

    test('selectors, conditions, groups, monitored policies and ValidatingAdmissionPolicies, as in a cluster', async () => {
      const settings = '  settings: {validations: [{expression: "false", message: denied}]}\n';
      const namespaced = policy('own', settings, 'AdmissionPolicy').replace(
        '{name: own}',
        '{name: own, namespace: other}',
      );
      write(
        'many.yaml',
        [
          policy('selected', `${settings}  namespaceSelector: {matchLabels: {team: red}}\n`),
          policy(
            'conditioned',
            `${settings}  matchConditions: [{name: c, expression: object.metadata.name == 'web'}]\n`,
          ),
          namespaced,
          `apiVersion: policies.kubewarden.io/v1
kind: ClusterAdmissionPolicyGroup
metadata: {name: both}
spec:
  rules: [{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}]
  expression: good() || bad()
  message: neither
  policies:
    good: {module: cel-policy, settings: {validations: [{expression: "true"}]}}
    bad: {module: cel-policy, settings: {validations: [{expression: "false"}]}}
`,
          `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: vap}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: ["*"]}]}
  validations: [{expression: "object.metadata.name != 'web'", message: no web}]
`,
        ].join('---\n'),
      );
      write(
        'objects.yaml',
        [
          pod('web', 'x:1'),
          'apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {team: blue}}\n',
        ].join('---\n'),
      );
      const { results } = await ran('many.yaml', 'objects.yaml');
      assert.deepEqual(
        results
          .filter(({ subject }) => subject.name === 'Pod shop/web')
          .map(({ policy: id, result, message }) => [id, result, message]),
        [
          ['clusterwide-selected', 'skip', 'not matched: namespaceSelector'],
          ['clusterwide-conditioned', 'fail', 'denied'],
          ['namespaced-other-own', 'skip', 'not matched: namespace'],
          ['clusterwide-group-both', 'pass', undefined],
          ['vap', 'fail', 'no web'],
        ],
      );
    });
  });

  suite('rampart policy test, inspect, pull and bench', () => {
    test('cases of a directory, as expected and not', async () => {
      write(
        'tests/labels.yaml',
        `policy: ${join(modules, 'labels.wapc.wasm')}
settings: {required: [team]}
cases:
  - name: refused without a team
    object: {apiVersion: v1, kind: Pod, metadata: {name: web}}
    expected: {allowed: false, message: label team is missing, code: 422}
  - name: allowed with one
    object: {apiVersion: v1, kind: Pod, metadata: {name: web, labels: {team: a}}}
    expected: {allowed: true, warnings: [team]}
  - name: settings that it refuses
    settings: {}
    expected: {settingsValid: false}
`,
      );
      write(
        'tests/owner.yaml',
        `policy: ${join(modules, 'owner.wapc.wasm')}
object: {apiVersion: v1, kind: Pod, metadata: {name: web, labels: {a: b}}}
userInfo: {username: alice}
expected: {allowed: true, mutated: {apiVersion: v1, kind: Pod, metadata: {name: web, labels: {owner: alice, a: b}}}}
`,
      );
      const all = await rampart('test', 'tests');
      assert.deepEqual(
        [all.code, all.stdout.split('\n').at(-2)],
        [0, '4 of 4 as expected'],
        all.stdout + all.stderr,
      );
      write(
        'other/one.yaml',
        `policy: ${join(modules, 'labels.wapc.wasm')}
settings: {required: [team]}
name: it is not so
object: {apiVersion: v1, kind: Pod, metadata: {name: web}}
expected: {allowed: true}
`,
      );
      const other = await rampart('test', 'other');
      assert.equal(other.code, 1);
      assert.match(
        other.stdout,
        /not ok it is not so\n +other\/one\.yaml:5: refused: label team is missing\n0 of 1/,
      );
      write('empty/a.yaml', 'a: 1\n');
      assert.equal((await rampart('test', 'empty')).code, 2);
      write('typo/a.yaml', 'policy: cel-policy\nexpected: {alowed: true}\n');
      assert.match((await rampart('test', 'typo')).stderr, /typo\/a\.yaml:2: .*the unknown "alowed"/);
    });

    test('a module of a registry: looked at, fetched, and not where its signatures are missing', async () => {
      await using registry = await RegistryFixture.start();
      const bytes = readFileSync(join(modules, 'labels.wapc.wasm'));
      const { reference, digest } = await registry.pushWasm('policies/labels', 'v1', bytes);
      write('sources.yml', `insecure_sources: ["${registry.host}"]\n`);
      const inspected = await rampart('inspect', reference, '--sources-path', 'sources.yml', '-o', 'json');
      const { runtime, manifestDigest, metadata } = JSON.parse(inspected.stdout) as Record<string, unknown>;
      assert.deepEqual([runtime, manifestDigest], ['wapc', digest]);
      assert.equal((metadata as { mutating: boolean }).mutating, false);
      const pulled = await rampart('pull', reference, '--sources-path', 'sources.yml', '-o', 'labels.wasm');
      assert.equal(pulled.code, 0, pulled.stderr);
      assert.deepEqual(readFileSync(join(directory, 'labels.wasm')), bytes);
      write('verification.yml', `apiVersion: v1\nallOf: [{kind: githubAction, owner: team}]\n`);
      const refused = await rampart(
        'pull',
        reference,
        '--sources-path',
        'sources.yml',
        '--verification-path',
        'verification.yml',
      );
      assert.deepEqual([refused.code, /is not trusted/.test(refused.stderr)], [2, true], refused.stderr);
    });

    test('a module that requires a signature, without a key', async () => {
      await using registry = await RegistryFixture.start();
      const sigstore = new SigstoreFixture();
      const bytes = readFileSync(join(modules, 'labels.wapc.wasm'));
      const pushed = await registry.pushWasm('policies/labels', 'v1', bytes);
      const subject = 'https://github.com/team/app/.github/workflows/release.yml@refs/tags/v1';
      const issuer = 'https://token.actions.githubusercontent.com';
      await signAs(registry, pushed, 'policies/labels', [
        { by: (payload) => sigstore.sign(payload, { issuer, subject }) },
      ]);
      write('sources.yml', `insecure_sources: ["${registry.host}"]\n`);
      write('trusted_root.json', JSON.stringify(sigstore.trustRoot));
      write('foreign_root.json', JSON.stringify(new SigstoreFixture().trustRoot));
      write('broken_root.json', '{"tlogs": []}');
      const pull = async (owner: string, ...trust: string[]): Promise<CommandEnded> => {
        write('keyless.yml', `apiVersion: v1\nallOf: [{kind: githubAction, owner: ${owner}}]\n`);
        const files = ['--sources-path', 'sources.yml', '--verification-path', 'keyless.yml'];
        return rampart('pull', pushed.reference, ...files, ...trust, '-o', 'keyless.wasm');
      };
      const pulled = await pull('team', '--sigstore-trust-config', 'trusted_root.json');
      assert.equal(pulled.code, 0, pulled.stderr);
      assert.deepEqual(readFileSync(join(directory, 'keyless.wasm')), bytes);
      const refusals: readonly (readonly [() => Promise<CommandEnded>, RegExp])[] = [
        [
          () => pull('eve', '--sigstore-trust-config', 'trusted_root.json'),
          /which does not start with \S+\/eve\//,
        ],
        [
          () => pull('team', '--sigstore-trust-config', 'foreign_root.json'),
          /not issued by a certificate authority/,
        ],
        [
          () => pull('team', '--sigstore-trust-config', 'broken_root.json'),
          /broken_root\.json cannot be used: it has/,
        ],
        [() => pull('team'), /requires a trust root, and none is configured/],
      ];
      for (const [ending, why] of refusals) {
        const { code, stderr } = await ending();
        assert.equal(code, 2, stderr);
        assert.match(stderr, why);
      }
    });

    test('how fast it is', async () => {
      write('bench/a.yaml', pod('web', 'x:1'));
      write('policy.yaml', noLatest);
      const { code, stdout } = await rampart('bench', 'policy.yaml', '-r', 'bench', '--seconds', '0.1');
      assert.equal(code, 0);
      assert.match(stdout, /clusterwide-no-latest +cel +[\d.]+ ms +[\d.]+ ms +\d+ +[\d.]+ ms +[\d.]+ ms +0/);
    });
  });
});
