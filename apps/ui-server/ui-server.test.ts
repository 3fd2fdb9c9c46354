import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, suite, test } from 'node:test';

import { findingLine } from '../../guard/stream/finding.ts';
import { kivePolicies } from '../../guards/file-access/api.ts';
import { crdManifest } from '../../lib/kube/crd/manifest.ts';
import { namespaces, nodes, pods } from '../../lib/kube/object/object.ts';
import { request } from '../../lib/net/node-http.ts';
import { deepTest } from '../../lib/testing/depth.fixture.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { kustomizationOf } from '../../scripts/deploy-choice.ts';
import { kustomizeOf, type Manifest } from '../../scripts/kustomize.ts';
import { browserObstacle, openBrowser } from '../../ui/ui-process.fixture.ts';
import { applyManifest } from '../agent/apply.fixture.ts';
import { deploy } from '../agent/deploy.fixture.ts';
import { Commands } from '../commands.fixture.ts';
import type { StatusReport } from '../status/report.ts';
import type { UiReport } from '../ui/report.ts';
import { RbacApi } from './rbac-api.fixture.ts';

const rampart = join(import.meta.dirname, '../../bin/rampart');
const installed = ['network-policy', 'policy-audit'];
const notInstalled =
  /^\S+ list \w+\.(?:kivebpf\.san7o\.github\.io|file-?integrity\.openshift\.io|bpfman\.io) in /;

interface Answered {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

/** A finding of network-policy about the pod of this name in `shop` or `bank`, and the other end of its connection. */
function refusal(namespace: string, name: string, other = namespace): string {
  return findingLine(
    {
      ...{ guard: 'network-policy', kind: 'NetworkPolicyRefusal', time: new Date().toISOString() },
      ...{ node: { name: 'n1' }, severity: 'low', verdict: 'refused', message: `of ${name}` },
      object: { kind: 'Pod', namespace, name },
      policy: { kind: 'NetworkPolicy', namespace, name: 'closed' },
    },
    { source: { namespace: other, pod: 'client' }, destination: { namespace, pod: name } },
  );
}

/** A finding of the node. */
const ofNode = findingLine({
  ...{ guard: 'file-integrity', kind: 'IntegrityFinding', time: new Date().toISOString(), object: null },
  ...{ node: { name: 'n1' }, severity: 'high', verdict: 'changed', message: '/etc/passwd of n1' },
  policy: { kind: 'FileIntegrity', namespace: 'shop', name: 'node' },
});
const stamped = (line: string): string => `${new Date().toISOString()} ${line}\n`;
const lines = [
  ...[refusal('shop', 'web'), refusal('bank', 'vault'), refusal('shop', 'till', 'bank'), ofNode],
].map(stamped);

const binding = (namespace: string, user: string, role: string) => ({
  ...{ apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'RoleBinding' },
  metadata: { name: `${user}-${role}`, namespace },
  roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: role },
  subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: user }],
});

const ofGroup = (given: ReturnType<typeof binding>) => {
  const [{ apiGroup, name } = { apiGroup: '', name: '' }] = given.subjects;
  return {
    ...given,
    metadata: { ...given.metadata, name: given.metadata.name.replaceAll(':', '-') },
    subjects: [{ apiGroup, kind: 'Group', name }],
  };
};

suite('rampart ui-server', () => {
  const commands = new Commands();
  let api: RbacApi;
  let child: ChildProcess;
  let port = 0;
  /** Lines of the agent's log. */
  let more = Promise.withResolvers<string>();

  async function* log(signal: AbortSignal, follow: boolean): AsyncIterable<Uint8Array> {
    for (const line of lines) yield Buffer.from(line);
    if (!follow) return;
    while (!signal.aborted) {
      const { promise: ended, resolve } = Promise.withResolvers<string>();
      signal.addEventListener('abort', () => resolve(''), { once: true });
      const line = await Promise.race([more.promise, ended]);
      more = Promise.withResolvers();
      if (line !== '') yield Buffer.from(stamped(line));
    }
  }

  async function open(path: string, headers: Readonly<Record<string, string>>): Promise<IncomingMessage> {
    const asked = request({ host: '127.0.0.1', port, path, headers, agent: false });
    asked.end();
    const [response] = (await once(asked, 'response')) as [IncomingMessage];
    return response;
  }
  async function ask(path: string, headers: Readonly<Record<string, string>> = {}): Promise<Answered> {
    const response = await open(path, headers);
    return { status: response.statusCode ?? 0, headers: response.headers, text: await text(response) };
  }
  const bearer = (user: string) => ({ authorization: `Bearer token-${user}` });
  const reportOf = async (user: string): Promise<UiReport> =>
    JSON.parse((await ask('/status.json', bearer(user))).text) as UiReport;
  /** Kept findings, as the stream sends them. */
  async function findingsOf(user: string): Promise<string> {
    let answers = '';
    for await (const chunk of (await open('/findings', bearer(user))).setEncoding(
      'utf8',
    ) as AsyncIterable<string>)
      if ((answers += chunk).includes('event: live')) break;
    return answers;
  }

  before(async () => {
    api = await RbacApi.start(async ({ options: { follow }, signal }) => log(signal, follow));
    const { client } = api;
    const objects = kustomizeOf(kustomizationOf({ guards: installed, extras: ['ui'] }), deploy);
    const kinds = /^(?:Namespace|CustomResourceDefinition|ServiceAccount|(?:Cluster)?Role(?:Binding)?)$/;
    await applyManifest(
      client,
      objects.filter(({ kind }: Manifest) => kinds.test(kind)),
    );
    await client.create(nodes, { metadata: { name: 'n1' } });
    for (const name of ['shop', 'bank']) await client.create(namespaces, { metadata: { name } });
    const agent = {
      metadata: {
        namespace: 'rampart-system',
        name: 'agent',
        labels: { 'app.kubernetes.io/name': 'rampart-agent' },
      },
      spec: { nodeName: 'n1', containers: [{ name: 'agent', image: 'a' }] },
    };
    const running = { name: 'agent', image: 'a', imageID: '', ready: true, restartCount: 0 };
    const state = { containerID: 'containerd://1', state: { running: {} } };
    const created = await client.create(pods, agent);
    const status = { phase: 'Running', containerStatuses: [{ ...running, ...state }] };
    await client.update(pods, { ...created, status }, { subresource: 'status' });
    const closed = (namespace: string) => ({
      ...{
        apiVersion: 'networking.k8s.io/v1',
        kind: 'NetworkPolicy',
        metadata: { name: 'closed', namespace },
      },
      spec: { podSelector: {} },
    });
    const policy = (kind: string, metadata: object) => ({
      ...{ apiVersion: 'policies.kubewarden.io/v1', kind, metadata },
      spec: {
        ...{ module: 'registry://ghcr.io/kubewarden/policies/safe-labels:v1', settings: {}, mutating: false },
        rules: [{ apiGroups: [''], apiVersions: ['v1'], resources: ['pods'], operations: ['CREATE'] }],
      },
    });
    await applyManifest(client, [
      ...[closed('shop'), closed('bank'), policy('ClusterAdmissionPolicy', { name: 'everywhere' })],
      ...['shop', 'bank'].map((namespace) =>
        policy('AdmissionPolicy', { name: `of-${namespace}`, namespace }),
      ),
      {
        ...{ apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRole', metadata: { name: 'view' } },
        rules: [{ apiGroups: [''], resources: ['pods', 'pods/log'], verbs: ['get', 'list'] }],
      },
      ...[
        binding('shop', 'ann', 'rampart-viewer'),
        binding('shop', 'ann', 'view'),
        binding('shop', 'bob', 'rampart-viewer'),
        ofGroup(binding('shop', 'system:serviceaccounts:ci', 'rampart-viewer')),
        ofGroup(binding('shop', 'system:serviceaccounts:ci', 'view')),
      ],
      {
        ...binding('rampart-system', 'root', 'rampart-viewer'),
        roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'rampart-viewer' },
      },
      {
        ...{ ...binding('', 'root', 'rampart-viewer'), kind: 'ClusterRoleBinding' },
        metadata: { name: 'root' },
      },
    ]);
    for (const user of ['ann', 'bob', 'root', 'eve', 'system:anonymous'])
      api.tokens.set(`token-${user}`, user);
    api.tokens.set('token-ci', 'system:serviceaccount:ci:builder');
    api.tokens.set('pod', 'system:serviceaccount:rampart-system:rampart-ui');
    const args = ['ui-server', '--kubeconfig', api.kubeconfigOf('pod'), '--listen', '127.0.0.1:0'];
    child = spawn(rampart, args, { stdio: ['ignore', 'ignore', 'pipe'] });
    let stderr = '';
    child.stderr?.setEncoding('utf8').on('data', (chunk: string) => (stderr += chunk));
    port = Number(
      await until('the page', () => /page of \S+ on http:\/\/127\.0\.0\.1:(\d+)/.exec(stderr)?.[1]),
    );
    await until('the findings', async () => (await reportOf('root')).findings.isLive);
  });
  after(async () => {
    await commands[Symbol.asyncDispose]();
    child?.kill();
    if (child?.exitCode === null) await once(child, 'exit');
    await api?.[Symbol.asyncDispose]();
  });

  test('answers nobody without a token that the API server knows', async () => {
    assert.equal((await ask('/')).status, 200);
    for (const path of ['/status.json', '/findings', '/session']) {
      for (const headers of [
        {},
        bearer('nobody'),
        bearer('system:anonymous'),
        { authorization: 'Basic dG9rZW4tcm9vdDo=' },
        { cookie: 'rampart-ui=token-root' },
      ]) {
        const answered = await ask(path, headers);
        assert.deepEqual([answered.status, answered.headers['www-authenticate']], [401, 'Bearer'], path);
      }
    }
    assert.equal((await ask('/healthz')).text, 'ok\n');
  });

  test('shows all to whoever may read all', async () => {
    const { status, failure, findings } = await reportOf('root');
    assert.equal(failure, null);
    assert.deepEqual(
      status?.problems.map(({ object: { namespace, name } }) => `${namespace}/${name}`).toSorted(),
      ['bank/closed', 'bank/of-bank', 'null/everywhere', 'shop/closed', 'shop/of-shop'],
    );
    assert.deepEqual(
      status?.nodes.map(({ name }) => name),
      ['n1'],
    );
    assert.deepEqual(
      findings.hours.map(({ findings: all }) => all),
      [{ low: 3 }, { high: 1 }],
    );
    assert.equal((await findingsOf('root')).match(/^data: \{/gm)?.length, 4);
  });

  test('shows a tenant what is of their namespaces alone', async () => {
    const report = await reportOf('ann');
    const { status, findings } = report;
    assert.deepEqual(
      status?.problems.map(({ object: { namespace, name } }) => `${namespace}/${name}`).toSorted(),
      ['shop/closed', 'shop/of-shop'],
    );
    assert.deepEqual([status?.nodes, status?.operator.state], [[], 'unknown']);
    assert.deepEqual(
      status?.guards.flatMap(({ name, objects }) => (objects === 1 ? [name] : [])),
      installed,
    );
    assert.deepEqual(
      findings.hours.map(({ findings: all }) => all),
      [{ low: 1 }],
    );
    const answers = await findingsOf('ann');
    assert.match(answers, /"name":"web"/);
    assert.equal(answers.match(/^data: \{/gm)?.length, 1);
    assert.doesNotMatch(JSON.stringify(report) + answers, /bank|everywhere|till|passwd/);
  });

  test('shows a service account what groups that its token says may read', async () => {
    const { status, who } = await reportOf('ci');
    assert.equal(who, 'system:serviceaccount:ci:builder');
    assert.deepEqual(
      status?.problems.map(({ object: { namespace, name } }) => `${namespace}/${name}`).toSorted(),
      ['shop/closed', 'shop/of-shop'],
    );
    assert.match(await findingsOf('ci'), /"name":"web"/);
  });

  test('shows no finding to a tenant who may not read logs, and nothing to who may read nothing', async () => {
    assert.deepEqual((await reportOf('bob')).status?.problems.length, 2);
    assert.doesNotMatch(await findingsOf('bob'), /^data: \{/m);
    const { status, findings } = await reportOf('eve');
    assert.deepEqual([status?.problems, status?.nodes, findings.hours], [[], [], []]);
    assert.doesNotMatch(JSON.stringify(status), /shop|bank|everywhere|n1/);
    assert.doesNotMatch(await findingsOf('eve'), /^data: \{/m);
  });

  test('a token that is typed is exchanged for a cookie, and a finding that comes is told', async () => {
    const { status, headers } = await ask('/session', bearer('ann'));
    assert.equal(status, 204);
    const [cookie = ''] = headers['set-cookie'] ?? [];
    assert.match(cookie, /^rampart-ui=[\w-]{43}; HttpOnly; Secure; SameSite=Strict$/);
    const session = { cookie: cookie.replace(/;.*/, '') };
    const stream = await open('/findings', session);
    const events: AsyncIterator<string> = stream.setEncoding('utf8')[Symbol.asyncIterator]();
    let answers = '';
    const untilReported = async (wanted: RegExp): Promise<void> => {
      while (!wanted.test(answers)) answers += ((await events.next()) as { value: string }).value;
    };
    await untilReported(/event: live/);
    for (const line of [refusal('bank', 'safe'), refusal('shop', 'new')]) {
      const { promise } = more;
      more.resolve(line);
      await until(() => more.promise !== promise);
    }
    await untilReported(/"name":"new"/);
    assert.doesNotMatch(answers, /bank/);
    stream.destroy();
    // A repeated request does not ask the API server again.
    const asked = api.reviews.length;
    for (let times = 0; times < 3; times++) assert.equal((await ask('/status.json', session)).status, 200);
    assert.deepEqual(
      api.reviews.slice(asked).filter((one) => !one.includes('rampart-ui list')),
      [],
    );
    const elsewhere = { ...session, origin: 'https://evil.example' };
    assert.equal((await ask('/status.json', elsewhere)).status, 403);
  });

  deepTest('in a browser of a tenant, as by port-forward', { skip: browserObstacle() }, async () => {
    await using browser = await openBrowser();
    const page = await browser.newPage();
    await page.goto(`http://127.0.0.1:${port}/`);
    await page.getByText('It takes a bearer token').waitFor();
    await page.getByLabel('Token').fill('token-ann');
    await page.keyboard.press('Enter');
    await page.getByText('No: 2 of 2 objects not guarded').waitFor();
    await page.locator('.finding', { hasText: 'web' }).waitFor();
    await page.getByText('You may not read all that is guarded').waitFor();
    await page.getByText('You may not read which nodes and agents there are').waitFor();
    assert.doesNotMatch(await page.content(), /bank|everywhere|till|passwd/);
  });

  test('shows nothing if the API server does not answer who it is', async () => {
    api.isFailing = true;
    api.tokens.set('token-late', 'root');
    try {
      for (const path of ['/status.json', '/findings', '/session']) {
        const answered = await ask(path, bearer('late'));
        assert.equal(answered.status, 503, path);
        assert.match(answered.text, /cannot be found out/);
      }
    } finally {
      api.isFailing = false;
    }
    assert.equal((await ask('/status.json', bearer('late'))).status, 200);
  });

  test('the pod needs no more than deploy/ui gives it, and less would not do', () => {
    // Guards that are not installed: the API server says so only to users who may list their kinds.
    assert.deepEqual(
      api.refused.filter((one) => !notInstalled.test(one)),
      [],
    );
    const [deployment] = kustomizeOf(kustomizationOf({ guards: [], extras: ['ui'] }), deploy).filter(
      ({ kind, metadata }) => kind === 'Deployment' && metadata.name === 'rampart-ui',
    );
    const { spec } = (deployment as unknown as { spec: { template: { spec: Record<string, unknown> } } }).spec
      .template;
    assert.deepEqual(Object.keys(spec).toSorted(), ['containers', 'securityContext', 'serviceAccountName']);
    assert.equal((spec['securityContext'] as { runAsNonRoot: boolean }).runAsNonRoot, true);
    const [{ securityContext } = {}] = spec['containers'] as { securityContext?: object }[];
    assert.deepEqual(securityContext, {
      ...{ privileged: false, allowPrivilegeEscalation: false, readOnlyRootFilesystem: true },
      capabilities: { drop: ['ALL'] },
    });
  });

  test('guards that are not installed are told from those that may not be read, here and by rampart status', async () => {
    const commandOf = async (
      ...args: readonly string[]
    ): Promise<{ stdout: string; code: number | null }> => {
      const { stdout, stderr, code } = await commands.run(
        ['status', '--kubeconfig', api.kubeconfigOf('token-root'), ...args],
        { HOME: '/nonexistent', KUBECONFIG: undefined },
      );
      assert.equal(stderr, '');
      return { stdout, code };
    };
    const statesOf = ({ guards, notRead, problems }: StatusReport) => ({
      guards: Object.fromEntries(guards.map(({ name, state, objects }) => [name, [state, objects]])),
      notRead: notRead.map(({ resource }) => resource),
      problems: problems.length,
    });
    const reported = async (): Promise<StatusReport> =>
      JSON.parse((await commandOf('-o', 'json')).stdout) as StatusReport;
    const known = statesOf(await reported());
    assert.deepEqual(known.notRead, []);
    assert.deepEqual(known.guards['file-access'], ['not-installed', 0]);
    assert.deepEqual(known.guards['network-policy']?.[1], 2);
    const { stdout, code } = await commandOf();
    assert.equal(code, 1);
    assert.match(stdout, /^Not in use here: (?=.*file-access)(?=.*file-integrity)(?=.*bpf-programs)/m);
    assert.doesNotMatch(stdout, /Not read/);
    assert.deepEqual(statesOf((await reportOf('root')).status!), known);

    await applyManifest(api.client, crdManifest(kivePolicies));
    const unread = await until('the page says it', async () => {
      const { status } = await reportOf('root');
      return status?.notRead.length === 1 && statesOf(status);
    });
    assert.deepEqual(unread, {
      ...known,
      guards: { ...known.guards, 'file-access': ['not-running', null] },
      notRead: ['kivepolicies'],
    });
    assert.deepEqual(statesOf(await reported()), unread);
    const answers = (await commandOf()).stdout;
    assert.match(answers, /^Unknown: what file-access is asked for may not be read\.$/m);
    assert.match(answers, /^Not read: kivepolicies\. cannot list kivepolicies:$/m);
    assert.match(answers, /^Not in use here: /m);
  });
});
