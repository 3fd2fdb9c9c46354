import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { serve } from '../../../lib/kube/client/api-server.fixture.ts';
import { KubeClient } from '../../../lib/kube/client/client.ts';
import type { PolicyServer } from '../api.ts';
import type { Evaluator } from '../engine/evaluator.ts';
import { podRequest } from '../engine/wasm/policies.fixture.ts';
import { ReadByServer } from '../policies/read-by-server.ts';
import { ServerReaders } from './server-readers.ts';

const kind = { apiVersion: 'v1', kind: 'ConfigMap' };
const keys = { namespace: 'vault', name: 'keys' };

const serverOf = (name: string, serviceAccountName?: string): PolicyServer => ({
  metadata: { name },
  spec: { image: 'x', replicas: 1, serviceAccountName } as PolicyServer['spec'],
});

/** An API that gives the object to the account `rich` alone. */
async function start() {
  const stack = new AsyncDisposableStack();
  const issued = new Map<string, string>();
  const api = stack.use(
    await serve(({ url, headers }, response, count) => {
      const respond = (code: number, body: object): void =>
        void response
          .writeHead(code, { 'content-type': 'application/json' })
          .end(JSON.stringify({ metadata: {}, ...body }));
      const [, requested] = /serviceaccounts\/(\w+)\/token$/.exec(url) ?? [];
      if (requested !== undefined) {
        issued.set(`Bearer ${count}`, requested);
        respond(201, { status: { token: String(count) } });
      } else if (url === '/api/v1') {
        respond(200, {
          resources: [{ name: 'configmaps', kind: 'ConfigMap', namespaced: true, verbs: ['get'] }],
        });
      } else if (issued.get(headers.authorization ?? '') === 'rich') {
        respond(200, { data: { secret: 'swordfish' } });
      } else respond(403, { kind: 'Status', code: 403, message: 'forbidden' });
    }),
  );
  const client = stack.use(new KubeClient(api.access));
  const servers = new Map<string, PolicyServer>();
  const synced = Promise.resolve();
  const readers = new ServerReaders({ client, servers: { synced, get: (name) => servers.get(name) } });
  const requests = (): string[] =>
    api.received.flatMap(({ url }) => /serviceaccounts\/(\w+)\/token$/.exec(url)?.[1] ?? []);
  return { servers, readers, requests, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

suite('reads of policies through their PolicyServer', () => {
  test('an answer to one account is not for another', async () => {
    await using api = await start();
    api.servers.set('one', serverOf('one', 'rich'));
    api.servers.set('two', serverOf('two'));
    using one = api.readers.open('one');
    using two = api.readers.open('two');
    assert.ok(await one.reader.get(kind, keys));
    const refused =
      /account rampart-system\/default of the PolicyServer two cannot get configmaps vault\/keys/;
    await assert.rejects(two.reader.get(kind, keys), refused);
    assert.match(two.reader.refusal([{ ...kind, ...keys }]) ?? '', refused);
    assert.equal(two.reader.refusal([{ ...kind, ...keys, name: 'other' }]), undefined);

    // Also where the server itself becomes another.
    api.servers.set('one', serverOf('one', 'poor'));
    await assert.rejects(one.reader.get(kind, keys), /rampart-system\/poor/);
    api.servers.set('one', serverOf('one', 'rich'));
    assert.ok(await one.reader.get(kind, keys));
    assert.equal(one.reader.refusal([{ ...kind, ...keys }]), undefined);
  });

  test('the policies of a server share a token, until the last one has gone', async () => {
    await using api = await start();
    api.servers.set('one', serverOf('one', 'rich'));
    const [first, second] = [api.readers.open('one'), api.readers.open('one')];
    for (const { reader } of [first, second]) assert.ok(await reader.get(kind, keys));
    first[Symbol.dispose]();
    assert.ok(await second.reader.get(kind, keys));
    assert.deepEqual(api.requests(), ['rich']);
    second[Symbol.dispose]();
    using third = api.readers.open('one');
    assert.ok(await third.reader.get(kind, keys));
    assert.deepEqual(api.requests(), ['rich', 'rich']);
  });

  test('a policy that was refused something has no verdict, also if it makes do without', async () => {
    await using api = await start();
    api.servers.set('two', serverOf('two'));
    const opened = api.readers.open('two');
    const asked = [{ ...kind, ...keys }];
    const careless: Evaluator = {
      runtime: 'wapc',
      validateSettings: () => Promise.resolve({ valid: true }),
      evaluate: async () => {
        await opened.reader.get(kind, keys).catch(() => undefined);
        return { allowed: true, asked };
      },
      [Symbol.asyncDispose]: () => Promise.resolve(),
    };
    await using policy = new ReadByServer(careless, opened);
    await assert.rejects(policy.evaluate(podRequest()), /default of the PolicyServer two.*bind a role/);
    api.servers.set('two', serverOf('two', 'rich'));
    const verdict = await policy.evaluate(podRequest());
    assert.equal(verdict.allowed, true);
    assert.deepEqual(verdict.asked, [...asked, opened.reader.source]);
  });

  test("Rampart's own accounts cannot be used", async () => {
    await using api = await start();
    api.servers.set('own', serverOf('own', 'rampart-operator'));
    using own = api.readers.open('own');
    await assert.rejects(own.reader.canI({}), /rampart-operator, which is Rampart's own/);
    assert.deepEqual(api.requests(), []);
  });
});
