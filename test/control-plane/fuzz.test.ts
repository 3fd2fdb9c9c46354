// The whole server under requests at random: every answer is one, nothing is half done, what is kept is sound.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';

import { parse } from 'yaml';

import { type Answer, Http, RampartProcess } from '../../apps/apiserver/rampart-process.fixture.ts';
import { TemporaryDirectory } from '../../lib/testing/temporary-directory.fixture.ts';
import { assertReached, Random, scaled, seed } from '../../lib/testing/depth.fixture.ts';
import { definitions, samples, things } from './manifests.fixture.ts';
import { widgetDefinition } from './widget.fixture.ts';
import { type Heard, type RandomRequest, randomRequest } from './requests.fixture.ts';

const REQUESTS = scaled(4000);
const FAULTS_SHOWN = 20;
const RSS_LIMIT_BYTES = 700 * 1024 * 1024;

interface Stored {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly uid: string;
    readonly resourceVersion: string;
    readonly deletionTimestamp?: string;
  };
}
interface List {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string };
  readonly items: readonly Stored[];
}

const random = new Random(seed);
const directory = new TemporaryDirectory();
const socket = directory.at('api.sock');
const start = (): Promise<RampartProcess> =>
  RampartProcess.apiServer('--data', directory.at('data'), '--socket', socket);
let server: RampartProcess;
const http = Http.onSocket(socket);

const storeVersion = async (): Promise<string> =>
  (await http.json<List>('/api/v1/nodes?limit=1')).metadata.resourceVersion;

/** Waits until the upkeep (kinds, namespaces, garbage) has done what followed from the last writes. */
async function settled(): Promise<string> {
  let version = await storeVersion();
  for (let same = 0; same < 3;) {
    await delay(20);
    const next = await storeVersion();
    same = next === version ? same + 1 : 0;
    version = next;
  }
  return version;
}

/** Everything that is kept, by path. */
async function everything(): Promise<Map<string, Stored>> {
  const all = new Map<string, Stored>();
  const paths = new Set(samples.map(({ path }) => path.replace('/namespaces/NS', '')));
  for (const path of paths) {
    const { status, text } = await http.ask(path);
    // The kind whose definition changes at random may not be served.
    if (status === 404 && path === things.replace('/namespaces/NS', '')) continue;
    assert.equal(status, 200, `${path}: ${text.slice(0, 500)}`);
    const { apiVersion, kind, items } = JSON.parse(text) as List;
    for (const item of items) {
      const { namespace } = item.metadata;
      // Names of RBAC kinds may have any character that a segment of a path can hold.
      const name = encodeURIComponent(item.metadata.name);
      const slash = path.lastIndexOf('/');
      const where =
        namespace === undefined
          ? path
          : `${path.slice(0, slash)}/namespaces/${namespace}${path.slice(slash)}`;
      all.set(`${where}/${name}`, { apiVersion, kind: kind.replace(/List$/, ''), ...item });
    }
  }
  return all;
}

/** Creates the samples that are missing. */
async function createSamples(): Promise<void> {
  for (const { path, object } of samples) {
    await http.ask(path.replace('NS', 'default'), { method: 'POST', body: object });
  }
}

const shown = ({ method, path, headers, body }: RandomRequest): string =>
  `${method} ${path} ${JSON.stringify(headers)}\n${body?.toString().slice(0, 3000) ?? ''}`;

async function send({ method, path, headers, body }: RandomRequest): Promise<Answer> {
  const { 'content-type': type = '', ...rest } = headers;
  const response = await http.open(path, { method, headers: rest, ...(body && { body }), type });
  const { statusCode: status = 0, headers: received } = response;
  // Whatever its value: apimachinery, pkg/runtime/converter.go, Convert_Slice_string_To_bool.
  if (status >= 300 || !/[?&]watch=/.test(path) || received['content-length'] !== undefined) {
    return await http.read(response);
  }
  response.on('error', () => undefined);
  await delay(random.below(10));
  response.destroy();
  return { status, headers: received, text: '' };
}

/** Fails for what is no answer of a Kubernetes API. */
function checkAnswer(request: RandomRequest, { status, headers, text }: Answer): unknown {
  const said = `${shown(request)}\n=> ${status} ${text.slice(0, 2000)}`;
  // A version in the future causes a timeout.
  assert.ok(
    (status >= 200 && status < 500) || (status === 504 && /Too large resource version/.test(text)),
    said,
  );
  const type = headers['content-type'] ?? '';
  if (request.method === 'HEAD' || text === '') {
    assert.ok(request.method === 'HEAD' || status < 400, said);
    return undefined;
  }
  let body: unknown;
  try {
    if (type.startsWith('application/json')) body = JSON.parse(text);
    else if (type.startsWith('application/yaml')) body = parse(text, { maxAliasCount: 0 });
  } catch (error) {
    assert.fail(`${said}\n${String(error)}`);
  }
  if (status < 400) return body;
  const answered = body as { kind?: unknown; status?: unknown; code?: unknown; message?: unknown };
  assert.deepEqual([answered?.kind, answered.status, answered.code], ['Status', 'Failure', status], said);
  assert.ok(typeof answered.message === 'string' && answered.message !== '', said);
  return body;
}

function listen(heard: Heard, body: unknown): void {
  const { metadata } = (body ?? {}) as Partial<List & Stored>;
  if (typeof metadata !== 'object' || metadata === null) return;
  if ('continue' in metadata && metadata.continue) heard.tokens.push(metadata.continue);
  if (metadata.resourceVersion) heard.versions.push(metadata.resourceVersion);
  if ('uid' in metadata && metadata.uid) heard.uids.push(metadata.uid);
}

describe(`${REQUESTS} requests at random (RAMPART_TEST_SEED=${seed})`, () => {
  before(async () => void (server = await start()));
  after(async () => {
    http[Symbol.dispose]();
    // It may not have started.
    await (server as RampartProcess | undefined)?.[Symbol.asyncDispose]();
    directory[Symbol.dispose]();
  });
  test('each is answered; one that is refused has changed nothing', async (t) => {
    const heard: Heard = { tokens: [], versions: ['1'], uids: ['none'] };
    const codes = new Map<number, number>();
    await http.json(definitions, { method: 'POST', body: widgetDefinition });
    for (const namespace of ['fuzz-a', 'fuzz-b']) {
      await http.json('/api/v1/namespaces', {
        method: 'POST',
        body: { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } },
      });
    }
    let known = await settled();
    let max = 0;
    const faults: unknown[] = [];
    for (let count = 0; count < REQUESTS; count++) {
      // Most requests should find something there.
      if (count % 200 === 0) {
        await createSamples();
        known = await settled();
      }
      const request = randomRequest(random, heard);
      const answer = await send(request).catch((error: unknown) => {
        faults.push(new Error(`${String(error)}: ${shown(request)}`));
      });
      if (answer === undefined) continue;
      try {
        listen(heard, checkAnswer(request, answer));
      } catch (error) {
        faults.push(error);
      }
      if (faults.length >= FAULTS_SHOWN) break;
      codes.set(answer.status, (codes.get(answer.status) ?? 0) + 1);
      // Versions grow with each change of anything.
      let version = await storeVersion();
      const harmless = answer.status >= 400 || request.method === 'GET';
      if (harmless && version !== known && request.method !== 'DELETE') {
        // The upkeep may still have been at work for earlier requests. The request's own changes happen each
        // time.
        for (let tries = 0; ; tries++) {
          version = await settled();
          const again = await send(request);
          known = await settled();
          if (again.status !== answer.status || known === version) break;
          assert.ok(tries < 4, `it has changed something: ${shown(request)}`);
        }
      } else known = version;
      if (count % 100 === 0) {
        max = Math.max(max, server.residentBytes);
        assert.ok(max < RSS_LIMIT_BYTES, `${max} bytes after ${count} requests`);
      }
    }
    if (faults.length > 0) throw new AggregateError(faults, 'not as they should be answered');
    t.diagnostic(
      `codes: ${JSON.stringify(Object.fromEntries([...codes].sort(([a], [b]) => a - b)))}; at most ${max >> 20} MiB`,
    );
    for (const code of [200, 201, 400, 404, 409, 415, 422])
      assertReached(codes.has(code), `none was answered ${code}`);
    assert.doesNotMatch(server.stderr, /"level":"(error|fatal)"/);
  });

  test('stored objects can be read and written back, which changes nothing', async (t) => {
    await settled();
    const all = await everything();
    for (const [path, object] of all) {
      const { text: stored } = await http.ask(path);
      const read = JSON.parse(stored) as Stored;
      assert.deepEqual(read, object, path);
      // Its rules may have changed since.
      if (/\/things\/[^/]+$/.test(path)) continue;
      // As text: integers of 64 bits are kept exactly, and JSON.parse would round them, which is a change.
      const { status, text } = await http.ask(path, { method: 'PUT', body: stored });
      assert.equal(status, 200, `${path}: ${text}\n${stored}`);
      assert.deepEqual(JSON.parse(text), read);
      const table = await http.ask(path, {
        headers: { accept: 'application/json;as=Table;v=v1;g=meta.k8s.io' },
      });
      assert.equal(table.status, 200, table.text);
    }
    t.diagnostic(`${all.size} objects`);
    assertReached(all.size >= 10, `${all.size} objects`);
  });

  test('kill -9 and a new start show the same', async () => {
    await settled();
    const [all, { groups }] = [await everything(), await http.json<{ groups: unknown }>('/apis')];
    await server.kill();
    server = await start();
    await settled();
    assert.deepEqual(await everything(), all);
    assert.deepEqual((await http.json<{ groups: unknown }>('/apis')).groups, groups);
  });
});
