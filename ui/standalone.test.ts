// The page of `rampart standalone --ui`, and the token that it is read with.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync, statSync } from 'node:fs';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { text } from 'node:stream/consumers';
import { after, before, suite, test } from 'node:test';

import type { UiPicture, UiReport } from '../apps/ui/report.ts';
import { Standalone } from '../apps/standalone/standalone.fixture.ts';
import { clusterAdmissionPolicyType } from '../guards/policy-audit/api.ts';
import { clusterPolicy } from '../guards/policy-audit/scanner/scan.fixture.ts';
import { configMaps, namespaces, secrets } from '../lib/kube/object/object.ts';
import { sensorSkip } from '../lib/sensor/sensor.fixture.ts';
import { deepTest } from '../lib/testing/depth.fixture.ts';
import { browserObstacle, openBrowser } from './ui-process.fixture.ts';

interface Asked {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

suite('rampart standalone --ui', { skip: sensorSkip }, () => {
  let one: Standalone;
  let server: URL;
  const token = (name = 'viewer.token'): string => readFileSync(one.at(`data/${name}`), 'utf8').trim();

  async function open(path: string, { method = 'GET', headers = {}, body }: Asked = {}) {
    const ca = readFileSync(one.at('data/ca.crt'));
    // Else what is checked is whether the certificate is that of the Host which is asked for.
    const own = { host: '127.0.0.1', port: server.port, servername: 'localhost', ca, agent: false };
    const asked = request({ ...own, path, method, headers, checkServerIdentity: () => undefined });
    asked.end(body);
    const [response] = (await once(asked, 'response')) as [IncomingMessage];
    return response;
  }

  async function ask(
    path: string,
    asked?: Asked,
  ): Promise<{ status: number; headers: IncomingHttpHeaders; text: string }> {
    const response = await open(path, asked);
    return { status: response.statusCode ?? 0, headers: response.headers, text: await text(response) };
  }

  async function cookie(): Promise<string> {
    const { headers } = await ask('/ui/session', { headers: { authorization: `Bearer ${token()}` } });
    return (headers['set-cookie']?.[0] ?? '').replace(/;.*/, '');
  }

  before(async () => {
    one = new Standalone();
    await one.start('--guards', 'policy-audit', '--cri-socket', '/nonexistent/rampart-test.sock', '--ui');
    const [, url = ''] = /page on (https:\S+)\/ui\//.exec(one.stderr) ?? [];
    server = new URL(url);
    await one.client.create(namespaces, { metadata: { name: 'shop' } });
    const policy = clusterPolicy('named', { expression: "object.metadata.name == 'good'", message: 'no' });
    await one.client.create(clusterAdmissionPolicyType, policy);
  });
  after(() => one[Symbol.asyncDispose]());

  test('the token of the viewer reads what rampart status does, writes nothing, and reads no Secret', async () => {
    assert.equal(statSync(one.at('data/viewer.token')).mode & 0o777, 0o600);
    await one.client.create(secrets, { metadata: { namespace: 'shop', name: 'key' } });
    const kubectl = (...args: string[]) =>
      one.kubectl('--kubeconfig', one.at('data/viewer.kubeconfig'), ...args);
    assert.match(kubectl('get', 'clusteradmissionpolicies').stdout, /named/);
    // A start of kubectl takes long: other objects are written without it.
    const { code, stderr } = kubectl('create', 'namespace', 'mine');
    assert.equal(code, 1, stderr);
    assert.match(stderr, /forbidden: User "rampart-viewer" cannot create resource "namespaces"/);
    const headers = { authorization: `Bearer ${token()}`, 'content-type': 'application/json' };
    const shop = '/api/v1/namespaces/shop';
    for (const [method, path] of [
      ['GET', `${shop}/secrets/key`],
      ['GET', `${shop}/secrets?watch=1`],
      ['GET', '/api/v1/secrets'],
      ['PATCH', shop],
      ['DELETE', '/apis/policies.kubewarden.io/v1/clusteradmissionpolicies/named'],
      ['GET', `${shop}/configmaps`],
      ['POST', '/api/v1/namespaces'],
      ['POST', '/apis/policies.kubewarden.io/v1/clusteradmissionpolicies'],
      ['PUT', shop],
      ['PATCH', `${shop}/status`],
      ['PUT', `${shop}/finalize`],
      ['DELETE', shop],
      ['DELETE', '/apis/policies.kubewarden.io/v1/clusteradmissionpolicies'],
      ['GET', '/apis/rbac.authorization.k8s.io/v1/clusterroles'],
    ] as const) {
      const body = method === 'GET' ? {} : { body: '{}' };
      const answered = await ask(path, { method, headers, ...body });
      assert.equal(answered.status, 403, `${method} ${path}: ${answered.text}`);
    }
  });

  test('the page: a token for a cookie, which is good for the page alone', async () => {
    const moved = await ask('/ui');
    assert.deepEqual([moved.status, moved.headers.location], [308, '/ui/']);
    const page = await ask('/ui/');
    assert.equal(page.status, 200);
    assert.match(String(page.headers['content-security-policy']), /^default-src 'none'; script-src 'self';/);
    for (const path of ['/ui/status.json', '/ui/findings']) {
      const { status, headers, text: why } = await ask(path);
      assert.deepEqual([status, headers['www-authenticate']], [401, 'Bearer']);
      assert.match(why, /data\/viewer\.token$/m);
    }
    // The administrator's is not for browsers.
    for (const wrong of ['wrong', token('token')]) {
      const { status, headers } = await ask('/ui/session', { headers: { authorization: `Bearer ${wrong}` } });
      assert.deepEqual([status, headers['set-cookie']], [401, undefined]);
    }
    const { headers: given } = await ask('/ui/session', { headers: { authorization: `bearer ${token()}` } });
    const [whole = ''] = given['set-cookie'] ?? [];
    assert.match(whole, /^rampart-ui-\d+=[\w-]{43}; Path=\/ui\/; HttpOnly; Secure; SameSite=Strict$/);
    const headers = { cookie: whole.replace(/;.*/, '') };
    for (const path of ['/api/v1/namespaces', '/version', '/metrics'])
      assert.equal((await ask(path, { headers })).status, 401, path);
    for (const refused of [
      { host: 'evil.example' },
      { origin: 'https://evil.example' },
      { origin: `http://127.0.0.1:${server.port}` },
      { 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'iframe' },
    ])
      assert.equal((await ask('/ui/status.json', { headers: { ...headers, ...refused } })).status, 403);
    const link = {
      'sec-fetch-site': 'cross-site',
      'sec-fetch-mode': 'navigate',
      'sec-fetch-dest': 'document',
    };
    assert.equal((await ask('/ui/', { headers: link })).status, 200);
    assert.equal((await ask('/ui/status.json', { method: 'POST', headers })).status, 405);
    for (const host of ['localhost', `[::1]:${server.port}`])
      assert.equal((await ask('/ui/', { headers: { host } })).status, 200, host);
  });

  test('the page: status with the rights of the viewer, findings of the process', async () => {
    const headers = { cookie: await cookie() };
    const report = async (): Promise<UiReport> =>
      JSON.parse((await ask('/ui/status.json', { headers })).text) as UiReport;
    const { status, failure, who, pictures } = await report();
    assert.deepEqual([failure, status?.notRead, who], [null, [], 'rampart-viewer']);
    assert.equal(pictures.length, 5);
    for (const guard of pictures) {
      const { text: answered } = await ask(`/ui/pictures/${guard}.json`, { headers });
      const { picture, failure: why } = JSON.parse(answered) as UiPicture;
      assert.equal(why, null, guard);
      assert.doesNotMatch(picture?.notes.join(' ') ?? '', /You may not read/, guard);
    }
    assert.deepEqual(
      status?.guards.filter(({ objects }) => objects !== 0).map(({ name, objects }) => [name, objects]),
      [['policy-audit', 1]],
    );
    const stream = await open('/ui/findings', { headers });
    const events: AsyncIterator<string> = stream.setEncoding('utf8')[Symbol.asyncIterator]();
    assert.equal((await events.next()).value, 'event: live\ndata: \n\n');
    const refused = { metadata: { namespace: 'shop', name: 'worse' } };
    // Once the policy is in effect.
    while (
      await one.client.create(configMaps, refused).then(
        () => true,
        () => false,
      )
    )
      await one.client.delete(configMaps, { namespace: 'shop', name: 'worse' });
    const { value: event } = (await events.next()) as { value: string };
    assert.match(event, /^id: \w+-\d+\ndata: \{"finding":\{"guard":"policy-audit".*"verdict":"rejected"/);
    stream.destroy();
    assert.equal((await report()).findings.hours.at(0)?.guard, 'policy-audit');
  });

  deepTest('in a browser: a token is typed once', { skip: browserObstacle() }, async () => {
    await using browser = await openBrowser();
    const context = await browser.newContext({ ignoreHTTPSErrors: true });
    context.setDefaultTimeout(60_000);
    const page = await context.newPage();
    // The findings are not to be had at first.
    let isRefused = true;
    await page.route('**/findings', (route) =>
      isRefused ? route.fulfill({ status: 503, body: 'later' }) : route.continue(),
    );
    await page.goto(new URL('/ui', server).href);
    await page.getByText(/The token is in .*viewer\.token/).waitFor();
    await page.getByLabel('Token').fill('wrong');
    await page.getByRole('button', { name: 'Open' }).click();
    await page.getByRole('alert').filter({ hasText: 'this is not the token' }).waitFor();
    await page.getByLabel('Token').fill(token());
    await page.keyboard.press('Enter');
    await page.locator('.answers', { hasText: 'Is everything guarded' }).waitFor();
    isRefused = false;
    await page.locator('.finding', { hasText: 'rejected' }).first().waitFor();
    await page.reload();
    await page.locator('.answers').waitFor();
    assert.equal(await page.evaluate(() => document.cookie), '');
    const late = await (await browser.newContext({ ignoreHTTPSErrors: true })).newPage();
    await late.goto(new URL('/ui/', server).href);
    await late.getByLabel('Token').waitFor();
  });
});
