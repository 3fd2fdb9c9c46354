/**
 * `rampart audit` as people, CI and a CronJob run it, against an API with policies in it. It is long because all of it uses one
 * API, which takes longer to start than most of the audits.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import type { Server } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';

import { parse } from 'yaml';

import { createServer as createHttpServer } from '../../../../lib/net/node-http.ts';
import { deepTest } from '../../../../lib/testing/depth.fixture.ts';
import { startTestApi, TestApi } from '../../../../lib/apiserver/test-api.fixture.ts';
import { configMaps, namespaces } from '../../../../lib/kube/object/object.ts';
import { clusterOpenReports, openReports } from '../../../../guard/reports/open-reports.ts';
import {
  mutatingAdmissionPolicies,
  mutatingAdmissionPolicyBindings,
  validatingAdmissionPolicies,
  validatingAdmissionPolicyBindings,
} from '../../api.ts';
import { type AuditReport, reportTypes } from '../../reports/report.ts';
import { until } from '../../../../lib/testing/until.fixture.ts';
import { policyAudit } from '../../guard.ts';
import { type PolicyWish, ScanCluster } from '../../scanner/scan.fixture.ts';
import { rampart, RampartProcess } from '../../../../apps/apiserver/rampart-process.fixture.ts';
import type { Ended } from '../../../../lib/testing/running.fixture.ts';
import { type CommandEnded, Commands } from '../../../../apps/commands.fixture.ts';
import { quote } from '../../../../test/kernel/quote.ts';

const modules = join(import.meta.dirname, '../../../../test/policies');

interface Reported {
  readonly summary: { readonly objects: number; readonly failing: number; readonly evaluations: number };
  readonly problems: Readonly<Record<string, string>>;
  readonly skipped: Readonly<Record<string, string>>;
  readonly unfinished: Readonly<Record<string, string>>;
  readonly reports: readonly AuditReport[];
}

/** In a process of its own, which has to end. */
async function auditProcess(kubeconfig: string): Promise<Ended> {
  await using process = new RampartProcess(['audit'], { KUBECONFIG: kubeconfig });
  return await process.ended;
}

/** `shop ConfigMap/cart no-carts=fail`, of each result. */
function saidOf({ stdout }: Pick<Ended, 'stdout'>, read: (text: string) => unknown = JSON.parse): string[] {
  const { reports } = read(stdout) as Reported;
  return reports.flatMap(({ scope, results }) =>
    results.map(({ policy, result }) =>
      [
        scope?.namespace ?? '',
        `${scope?.kind}/${scope?.name}`,
        `${policy.replace('clusterwide-', '')}=${result}`,
      ]
        .join(' ')
        .trim(),
    ),
  );
}

const aboutShops: PolicyWish = {
  more: { namespaceSelector: { matchExpressions: [{ key: 'tier', operator: 'Exists' }] } },
};
const ruleOf = (...resources: string[]) => ({
  ...{ apiGroups: [''], apiVersions: ['v1'], resources, operations: ['CREATE'] },
});
const rule = (...resources: string[]): object => ({ ...aboutShops.more, rules: [ruleOf(...resources)] });
const noCarts: PolicyWish = {
  expression: "object.metadata.name != 'cart'",
  message: 'no carts',
  more: rule('configmaps'),
};
/** About Namespaces. */
const teams: PolicyWish = {
  expression: "has(object.metadata.labels) && 'team' in object.metadata.labels",
  more: rule('namespaces'),
};
/** The same in WebAssembly, which takes much longer to load. */
const teamsInWebAssembly: PolicyWish = {
  more: {
    ...rule('namespaces'),
    module: `file://${join(modules, 'labels.wapc.wasm')}`,
    settings: { required: ['team'] },
  },
};

/** Whoever comes this way may not write some paths, as RBAC says it, and waits for the answers of some; a real API is behind it. */
class OtherUser implements AsyncDisposable {
  readonly kubeconfig: string;
  readonly #server: Server;

  private constructor(server: Server, kubeconfig: string) {
    this.#server = server;
    this.kubeconfig = kubeconfig;
  }

  static async start(
    api: TestApi,
    { mayNotWrite, late }: { readonly mayNotWrite?: RegExp; readonly late?: RegExp },
  ): Promise<OtherUser> {
    const text = readFileSync(api.kubeconfig, 'utf8');
    const config = parse(text) as {
      clusters: [{ cluster: { server: string; 'certificate-authority-data': string } }];
    };
    const [{ cluster }] = config.clusters;
    const ca = Buffer.from(cluster['certificate-authority-data'], 'base64');
    const server = createHttpServer((asked, answer) => {
      const { method = 'GET', url = '', headers } = asked;
      if (method !== 'GET' && mayNotWrite?.test(url) === true) {
        const message = 'this user may not do that';
        const status = {
          kind: 'Status',
          apiVersion: 'v1',
          status: 'Failure',
          reason: 'Forbidden',
          code: 403,
        };
        asked.resume();
        answer.writeHead(403, { 'content-type': 'application/json' });
        return void answer.end(JSON.stringify({ ...status, message }));
      }
      const pass = (): void => {
        const passed = httpsRequest(new URL(url, cluster.server), { method, headers, ca }, (from) => {
          answer.writeHead(from.statusCode ?? 500, from.headers);
          from.pipe(answer);
        });
        passed.on('error', () => answer.destroy());
        answer.on('close', () => passed.destroy());
        asked.pipe(passed);
      };
      setTimeout(pass, late?.test(url) === true ? 1000 : 0);
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const kubeconfig = join(api.directory, `other-user-${port}`);
    writeFileSync(kubeconfig, text.replace(cluster.server, `http://127.0.0.1:${port}`));
    return new OtherUser(server, kubeconfig);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }
}

suite('rampart audit', () => {
  const commands = new Commands();
  const audit = (kubeconfig: string, ...args: string[]): Promise<CommandEnded> =>
    commands.run(['audit', ...args], { KUBECONFIG: kubeconfig });
  let cluster: ScanCluster;
  before(async () => {
    cluster = await ScanCluster.start();
    await cluster.setNamespace('shop', { tier: 'front', team: 'a' });
    await cluster.setNamespace('other', { tier: 'back', team: 'b' });
    for (const namespace of ['shop', 'other']) {
      await cluster.setObject('configmaps', namespace, 'cart', {});
      await cluster.setObject('configmaps', namespace, 'fine', {});
    }
  });
  after(async () => {
    await commands[Symbol.asyncDispose]();
    await cluster[Symbol.asyncDispose]();
  });

  const run = (...args: string[]): Promise<CommandEnded> => audit(cluster.kubeconfig, ...args);
  /** The version of the last write of any object. */
  const lastWrite = async (): Promise<string> =>
    (await cluster.client.list(namespaces)).metadata.resourceVersion ?? '';
  const only = async (wishes: Readonly<Record<string, PolicyWish>>): Promise<void> => {
    for (const name of ['carts', 'teams', 'broken', 'slow']) await cluster.deletePolicy(name);
    for (const [name, wish] of Object.entries(wishes)) await cluster.setPolicy(name, wish);
  };

  test('0 where all is clean, 1 where something fails; reports are written, and evaluated once', async () => {
    await only({ teams: teamsInWebAssembly });
    const clean = await auditProcess(cluster.kubeconfig);
    assert.equal(clean.code, 0, clean.stderr);
    assert.match(clean.stdout, /^2 objects: 0 fail, none with errors\. 2 evaluations, 2 reports written in /);
    assert.deepEqual(await cluster.lines(), ['Namespace other: teams=pass', 'Namespace shop: teams=pass']);
    await cluster.setPolicy('carts', noCarts);
    const failing = await run();
    assert.deepEqual([failing.code, failing.stderr], [1, '']);
    assert.match(
      failing.stdout,
      /^OBJECT +POLICY +RESULT +MESSAGE\nother ConfigMap\/cart +clusterwide-carts +fail +no carts\nshop ConfigMap\/cart +clusterwide-carts +fail +no carts\n\n6 objects: 2 fail, none with errors\. 4 evaluations, 4 /,
    );
    const again = await run();
    assert.equal(again.code, 1);
    assert.match(again.stdout, /\. 0 evaluations, 0 reports written in /);
  });

  test('only the requested objects are audited and reported: -n, -c, -i, -k', async () => {
    await only({ teams, carts: noCarts });
    const shop = ['shop ConfigMap/cart carts=fail', 'shop ConfigMap/fine carts=pass'];
    const other = ['other ConfigMap/cart carts=fail', 'other ConfigMap/fine carts=pass'];
    const none = ['Namespace/other teams=pass', 'Namespace/shop teams=pass'];
    type Case = readonly [args: readonly string[], code: number, said: readonly string[]];
    const withoutStore = ([args, ...expected]: Case): Case => [[...args, '--disable-store'], ...expected];
    const cases: readonly Case[] = [
      [[], 1, [...none, ...other, ...shop]],
      [['-n', 'shop'], 1, shop],
      [['-c'], 0, none],
      [['-c', '-n', 'other'], 1, [...none, ...other]],
      [['-i', 'shop'], 1, [...none, ...other]],
      [['-i', 'shop,other'], 0, none],
      [['-i', 'shop', '-k', 'other'], 0, none],
    ];
    await run();
    const reported = cases.filter(([[first]]) => first === '-i');
    for (const [args, code, said] of [...reported, ...cases.map(withoutStore)]) {
      const ended = await run('-o', 'json', ...args);
      assert.deepEqual([ended.code, saidOf(ended)], [code, said], [...args, ended.stderr].join(' '));
    }
  });

  test("command lines of Kubewarden's audit scanner, as its chart and its documentation have them", async () => {
    await only({ teams, carts: noCarts });
    const fails = 'shop ConfigMap/cart carts=fail';
    const lines = [
      '--kubewarden-namespace kubewarden --disable-store --output-scan',
      '-o -n shop',
      '-n shop -o',
      '--kubewarden-namespace kubewarden --loglevel info --extra-ca /pki/policy-server-root-ca-pem --ignore-namespaces kube-system ' +
        '--ignore-namespaces default,other --output-scan --parallel-namespaces 1 --parallel-resources 100 --parallel-policies 5 ' +
        '--page-size 100 --report-kind policyreport --disable-store',
    ];
    for (const line of lines) {
      const ended = await run(...line.split(' '));
      assert.deepEqual([ended.code, saidOf(ended).includes(fails)], [1, true], `${line}: ${ended.stderr}`);
    }
  });

  test('as JSON and YAML the same; -o table', async () => {
    await only({ carts: noCarts });
    const json = await run('-o', 'json', '-n', 'shop');
    const yaml = await run('-o', 'yaml', '-n', 'shop');
    const [{ reports }, asYaml] = [JSON.parse(json.stdout) as Reported, parse(yaml.stdout) as Reported];
    assert.deepEqual(asYaml.reports, reports);
    assert.deepEqual(
      reports.map(({ kind, metadata, summary }) => [kind, metadata.namespace, summary.fail]),
      [
        ['PolicyReport', 'shop', 1],
        ['PolicyReport', 'shop', 0],
      ],
    );
    assert.match((await run('-o', 'table', '-n', 'shop')).stdout, /^OBJECT +POLICY/);
  });

  test('--disable-store writes nothing at all', async () => {
    await only({ teams, carts: noCarts });
    await run();
    await only({ carts: { ...noCarts, message: 'none at all' } });
    const was = [await lastWrite(), await cluster.lines()];
    const ended = await run('-o', '--disable-store');
    const { reports, summary } = JSON.parse(ended.stdout) as Reported;
    assert.deepEqual([ended.code, summary.evaluations], [1, 4]);
    assert.equal(reports[0]?.results[0]?.message, 'none at all');
    assert.deepEqual([await lastWrite(), await cluster.lines()], was);
  });

  test('reports of OpenReports, of a namespace, of failures alone', async () => {
    await only({ carts: noCarts });
    await run('--report-kind', 'openreports');
    assert.equal((await cluster.reports('openreports')).length, 4);
    const ended = await run('--reports-by', 'namespace', '--reports', 'failures', '-o');
    assert.deepEqual(
      [ended.code, (JSON.parse(ended.stdout) as Reported).reports.map(({ metadata }) => metadata.name)],
      [1, ['polr-ns-other', 'polr-ns-shop']],
    );
    assert.deepEqual(await cluster.lines(), [
      'other ConfigMap cart: carts=fail',
      'shop ConfigMap cart: carts=fail',
    ]);
  });

  test('2 where a policy could not be asked, also if something fails by another', async () => {
    const broken = { more: { ...rule('configmaps'), module: 'file:///nowhere/policy.wasm' } };
    await only({ teams, broken });
    const ended = await run('--disable-store');
    assert.equal(ended.code, 2, ended.stdout);
    assert.match(ended.stderr, /^rampart: clusteradmissionpolicies\/broken: .*\/nowhere\/policy\.wasm/);
    await only({ carts: noCarts, broken });
    const failing = await run('--disable-store', '-o');
    assert.equal(failing.code, 2);
    assert.ok(saidOf(failing).includes('shop ConfigMap/cart carts=fail'));
    assert.deepEqual(Object.keys((JSON.parse(failing.stdout) as Reported).problems), [
      'clusteradmissionpolicies/broken',
    ]);
    await only({ carts: { ...noCarts, expression: 'object.nothing == 1' } });
    const error = await run('--disable-store', '-n', 'shop');
    assert.equal(error.code, 2);
    assert.match(error.stdout, /shop ConfigMap\/cart +clusterwide-carts +error +.*no such key: nothing/);
  });

  test('modules come from where --policy-sources says', async () => {
    const module = readFileSync(join(modules, 'labels.wapc.wasm'));
    const server = createHttpServer((_, answer) => void answer.end(module));
    await once(server.listen(0, '127.0.0.1'), 'listening');
    try {
      const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
      const more = { ...teamsInWebAssembly.more, module: `http://${host}/labels.wasm` };
      await only({ teams: { more } });
      const refused = await run('--disable-store');
      assert.match(refused.stderr, /add 127\.0\.0\.1:\d+ to insecure_sources in sources\.yml/);
      const sources = join(cluster.directory, 'sources.yml');
      writeFileSync(sources, `insecure_sources: ['${host}']\n`);
      const { code, stderr } = await run('--disable-store', '--policy-sources', sources);
      assert.deepEqual([code, stderr], [0, '']);
      const { code: explained } = await run('explain', 'ns/shop', '--policy-sources', sources);
      assert.equal(explained, 0);
    } finally {
      server.close();
    }
  });

  test('policies that no audit evaluates are listed, and are not a failure', async () => {
    const deletions = {
      apiGroups: [''],
      apiVersions: ['v1'],
      resources: ['configmaps'],
      operations: ['DELETE'],
    };
    const typo = { ...deletions, resources: ['configmap'], operations: ['CREATE'] };
    await only({
      teams,
      carts: { more: { rules: [typo] } },
      broken: { more: { rules: [deletions] } },
      slow: { more: { ...rule('configmaps'), backgroundAudit: false } },
    });
    const reported = {
      'clusterwide-broken': 'it does not apply to created objects',
      'clusterwide-carts': 'it applies to nothing: the API does not serve configmap/v1',
      'clusterwide-slow': 'backgroundAudit is false',
    };
    const json = await run('--disable-store', '-o');
    assert.deepEqual([json.code, (JSON.parse(json.stdout) as Reported).skipped], [0, reported]);
    const { stdout } = await run('--disable-store');
    assert.deepEqual(
      stdout.trimEnd().split('\n').slice(1),
      Object.entries(reported).map(([policy, why]) => `skipped: ${policy}: ${why}`),
    );
  });

  test('explain: what each policy says of an object, or why it is not about it', async () => {
    const away = { more: { namespaceSelector: { matchLabels: { tier: 'back' } } } };
    await only({ teams, carts: noCarts, broken: away });
    const failing = await run('explain', 'configmap/cart', '-n', 'shop', '-o', 'json');
    assert.equal(failing.code, 1, failing.stderr);
    const reported = JSON.parse(failing.stdout) as { kind: string; policies: { evaluatedMs?: number }[] };
    assert.deepEqual(
      reported.policies.map(({ evaluatedMs: _when, ...rest }) => rest),
      [
        {
          policy: 'clusterwide-broken',
          isRelevant: false,
          why: 'its namespaceSelector does not select the namespace',
        },
        {
          policy: 'clusterwide-carts',
          isRelevant: true,
          result: 'fail',
          from: 'evaluation',
          message: 'no carts',
        },
        { policy: 'clusterwide-teams', isRelevant: false, why: 'its rules do not match this kind' },
      ],
    );
    await run('-n', 'shop');
    const mutating = { metadata: { name: 'sets' } };
    await cluster.client.create(mutatingAdmissionPolicies, {
      ...mutating,
      spec: {
        ...{ reinvocationPolicy: 'Never', matchConstraints: { resourceRules: [ruleOf('configmaps')] } },
        mutations: [{ patchType: 'JSONPatch', jsonPatch: { expression: '[]' } }],
      },
    });
    await cluster.client.create(mutatingAdmissionPolicyBindings, {
      ...mutating,
      spec: { policyName: 'sets' },
    });
    const withMutating = await run('explain', 'cm/cart', '-n', 'shop');
    assert.match(
      withMutating.stdout,
      /mutating\/sets\/sets +no +it changes such objects when they are written/,
    );
    await cluster.client.delete(mutatingAdmissionPolicyBindings, { name: 'sets' });
    await cluster.client.delete(mutatingAdmissionPolicies, { name: 'sets' });
    const table = await run('explain', 'cm/cart', '-n', 'shop');
    assert.equal(table.code, 1);
    assert.match(table.stdout, /^ConfigMap shop\/cart\n.*\n/);
    assert.match(table.stdout, /\nclusterwide-carts +fail +report, evaluated .* +no carts\n/);
    assert.equal((await run('explain', 'configmap/fine', '-n', 'shop')).code, 0);
    const nowhere = await run('explain', 'configmap/none', '-n', 'shop');
    assert.deepEqual([nowhere.code, nowhere.stderr], [2, 'rampart: there is no ConfigMap shop/none\n']);
    assert.match((await run('explain', 'thing/cart')).stderr, /the API does not serve the kind "thing"/);
  });

  deepTest('an evaluation that fails is not repeated, also if other kinds are listed later', async () => {
    const module = `file://${join(modules, 'unruly.wapc.wasm')}`;
    await only({
      broken: { more: { ...rule('configmaps', 'secrets'), module, settings: { do: 'trap' } } },
    });
    await using user = await OtherUser.start(cluster, { late: /^\/api\/v1\/secrets\?/ });
    const { summary } = JSON.parse(
      (await audit(user.kubeconfig, '--disable-store', '-o')).stdout,
    ) as Reported;
    assert.deepEqual([summary.objects, summary.evaluations], [4, 4]);
  });

  deepTest('exits with 2 and names the namespaces in which it may not write reports', async () => {
    await only({ carts: noCarts });
    for (const [mayNotWrite, said] of [
      [/^\/apis\/wgpolicyk8s\.io\/v1alpha2\/namespaces\/other\//, ['other']],
      [/^\/apis\/wgpolicyk8s\.io\//, ['other', 'shop']],
    ] as const) {
      for (const { metadata } of await cluster.reports()) {
        const { name = '', namespace } = metadata;
        const { namespaced, cluster: clusterType } = reportTypes.policyreport;
        if (namespace === undefined) await cluster.client.delete(clusterType, { name });
        else await cluster.client.delete(namespaced, { name, namespace });
      }
      await using user = await OtherUser.start(cluster, { mayNotWrite });
      const { code, stderr, stdout } = await audit(user.kubeconfig, '-o');
      assert.equal(code, 2, stdout);
      const { unfinished, reports } = JSON.parse(stdout) as Reported;
      assert.deepEqual(Object.keys(unfinished).toSorted(), said);
      assert.equal(reports.length, 4 - 2 * said.length);
      for (const namespace of said)
        assert.match(
          stderr,
          new RegExp(
            `^rampart: namespace ${namespace} not finished: cannot create policyreports .*may not`,
            'm',
          ),
        );
      // Its results are printed all the same.
      assert.equal((await audit(user.kubeconfig, '--disable-store')).code, 1);
    }
  });

  deepTest('2 where the API goes away in the middle and stays away', async () => {
    const slow = {
      more: {
        ...rule('configmaps'),
        module: `file://${join(modules, 'unruly.wapc.wasm')}`,
        settings: { do: 'spin' },
      },
    };
    await using own = await ScanCluster.start();
    for (const name of ['a', 'b', 'c', 'd']) {
      await own.setNamespace(name, { tier: 'front' });
      await own.setObject('configmaps', name, 'cart', {});
    }
    await own.setPolicy('slow', slow);
    await using running = new RampartProcess(['audit'], { KUBECONFIG: own.kubeconfig });
    await until('the first report', async () => (await own.reports()).length > 0);
    await own.stopApi();
    const { code, stdout, stderr } = await running.ended;
    assert.deepEqual([code, stdout], [2, '']);
    assert.match(
      stderr,
      /^rampart: the API has not responded for \d+ s, and the audit is incomplete: .*nothing listens there.* Audit again/m,
    );
  });

  deepTest('how far it is, on a terminal and nowhere else', async () => {
    const slow = {
      more: {
        ...rule('configmaps'),
        matchConditions: [{ name: 'one', expression: "object.metadata.name == 'cart'" }],
        module: `file://${join(modules, 'unruly.wapc.wasm')}`,
        settings: { do: 'spin' },
      },
    };
    await only({ slow });
    const args = ['audit', '--disable-store', '-n', 'shop'];
    const file = join(cluster.directory, 'stdout');
    const command = `${[rampart, ...args].map(quote).join(' ')} > ${quote(file)}`;
    await using terminal = new RampartProcess(
      ['-qec', command, '/dev/null'],
      { KUBECONFIG: cluster.kubeconfig },
      ['script'],
    );
    const { code, stdout } = await terminal.ended;
    assert.equal(code, 2, stdout);
    const erase = '\r\u001b[K';
    const lines = stdout.split(erase);
    assert.match(lines.at(-2) ?? '', /^\d objects, \d evaluations, \d namespaces remaining$/);
    assert.equal(lines.at(-1), '');
    const elsewhere = await run(...args.slice(1));
    assert.deepEqual([elsewhere.code, elsewhere.stderr], [2, '']);
    // Neither there, nor in what is kept of it.
    const kept = elsewhere.stdout + readFileSync(file, 'utf8');
    assert.deepEqual([kept.includes('\u001b'), kept.includes(' left')], [false, false]);
  });

  /** A kubeconfig for another port. */
  const kubeconfigFor = (port: number): string => {
    const file = join(cluster.directory, `kubeconfig-${port}`);
    writeFileSync(file, readFileSync(cluster.kubeconfig, 'utf8').replace(/(server: .*:)\d+/, `$1${port}`));
    return file;
  };

  test('2 where the API cannot be reached', async () => {
    const away = await audit(kubeconfigFor(1));
    assert.deepEqual([away.code, away.stdout], [2, '']);
    assert.match(
      away.stderr,
      /^rampart: cannot get \S+: no response from 127\.0\.0\.1:1: nothing listens there .*\n$/,
    );
    const nowhere = await audit('/nowhere/kubeconfig');
    assert.deepEqual(
      [nowhere.code, /no Kubernetes API server is configured/.test(nowhere.stderr)],
      [2, true],
    );
  });

  test('without the definitions of Kubewarden, ValidatingAdmissionPolicies are audited, in reports of the kind that is there', async () => {
    await using api = new TestApi(await startTestApi({ name: 'audit', memory: true }));
    const noCartsThere = {
      matchConstraints: {
        resourceRules: [
          { apiGroups: [''], apiVersions: ['v1'], resources: ['configmaps'], operations: ['CREATE'] },
        ],
      },
      validations: [{ expression: "object.metadata.name != 'cart'" }],
    };
    await api.client.create(validatingAdmissionPolicies, { metadata: { name: 'carts' }, spec: noCartsThere });
    await api.client.create(validatingAdmissionPolicyBindings, {
      metadata: { name: 'all' },
      spec: { policyName: 'carts', validationActions: ['Deny'] },
    });
    await api.client.create(configMaps, { metadata: { name: 'cart', namespace: 'default' } });
    const unstored = await audit(api.kubeconfig, '--disable-store', '-o', 'json');
    assert.deepEqual([unstored.code, unstored.stderr], [1, '']);
    assert.ok(saidOf(unstored).includes('default ConfigMap/cart carts/all=fail'), unstored.stdout);
    assert.equal((await audit(api.kubeconfig, 'explain', 'configmap/cart', '-n', 'default')).code, 1);

    await api.createDefinitions([openReports, clusterOpenReports]);
    assert.equal((await audit(api.kubeconfig)).code, 1);
    const { items } = await api.client.list(reportTypes.openreports.namespaced, { namespace: 'default' });
    assert.ok(items.some(({ scope }) => scope?.name === 'cart'));
    // Kubewarden is installed later.
    await api.createDefinitions(policyAudit.resources);
    assert.equal((await audit(api.kubeconfig, '--report-kind', 'openreports')).code, 1);
  });

  test('2 for what the API does not serve: reports, the namespace', async () => {
    await using api = new TestApi(await startTestApi({ name: 'audit', memory: true }));
    const reports = await audit(api.kubeconfig);
    assert.equal(reports.code, 2);
    assert.match(
      reports.stderr,
      /^rampart: cannot audit: the API does not serve \w+\.wgpolicyk8s\.io\. Apply deploy\/policy-reports\/, .*--disable-store\n$/,
    );
    assert.equal((await audit(api.kubeconfig, '--disable-store')).code, 0);
    const namespace = await audit(api.kubeconfig, '--disable-store', '-n', 'nowhere');
    assert.deepEqual([namespace.code, namespace.stderr], [2, 'rampart: there is no namespace nowhere\n']);
  });

  test('2 for a command line that is wrong', async () => {
    const url = ['-u', 'https://127.0.0.1:1'];
    const cases: readonly (readonly [args: readonly string[], why: RegExp])[] = [
      [['--bogus'], /unknown option '--bogus'. Try: rampart audit --help/],
      [['-o', 'xml'], /Allowed choices are table, wide, json, yaml/],
      [['--parallel-namespaces', '0'], /It must be a number of at least 1/],
      [['shop'], /too many arguments/],
      [['-n', 'shop', '-i', 'other,shop'], /the namespace shop is both selected and ignored/],
      [[...url, '--client-cert', 'tls.crt'], /--client-cert alone: .*Give both/],
      [[...url, '-f', '/nowhere/ca.pem'], /cannot read \/nowhere\/ca\.pem, which --extra-ca names: ENOENT/],
      [
        [...url, '-f', cluster.kubeconfig],
        /the policy server at https:\/\/127\.0\.0\.1:1\/ could not be queried/,
      ],
      [['-u', 'somewhere'], /--policy-server-url "somewhere" is not a URL/],
      [['--kubeconfig', 'a', '--data', 'b'], /--kubeconfig and --data together/],
    ];
    for (const [args, why] of cases) {
      const { code, stdout, stderr } = await audit(cluster.kubeconfig, ...args);
      assert.deepEqual([code, stdout], [2, ''], args.join(' '));
      assert.match(stderr, why);
      assert.match(stderr, /^rampart: [^\n]+\n$/);
    }
  });

  test('2 after a signal, and it says so', async () => {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    try {
      const kubeconfig = kubeconfigFor((server.address() as AddressInfo).port);
      const asked = once(server, 'connection');
      await using waiting = new RampartProcess(['audit'], { KUBECONFIG: kubeconfig });
      const [connection] = await asked;
      waiting.signal('SIGINT');
      const { code, stderr } = await waiting.ended;
      assert.deepEqual([code, stderr], [2, 'rampart: stopped before the audit was complete\n']);
      connection.destroy();
    } finally {
      server.close();
    }
  });
});
