import assert from 'node:assert/strict';
import type { AddressInfo } from 'node:net';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import { createServer } from '../net/node-http.ts';
import { createLogger } from '../telemetry/log.ts';
import { parseChallenges } from './authentication.ts';
import { digestOf } from './digest.ts';
import { openRegistry } from './open-registry.ts';
import { credentialsOfDockerConfig, credentialsOfSecrets } from './pull-secrets.ts';
import { parseReference } from './reference.ts';
import { endpointsOf, parseRegistriesConf } from './registries-conf.ts';

const hex = 'a'.repeat(64);

suite('references', () => {
  const good: readonly (readonly [string, string, string, string | undefined])[] = [
    ['registry.example/team/policy:v1', 'registry.example', 'team/policy', 'v1'],
    ['localhost/a', 'localhost', 'a', 'latest'],
    ['127.0.0.1:5000/a:b', '127.0.0.1:5000', 'a', 'b'],
    ['[::1]:5000/a:b', '[::1]:5000', 'a', 'b'],
    ['alpine', 'docker.io', 'library/alpine', 'latest'],
    ['team/policy:v1', 'docker.io', 'team/policy', 'v1'],
    [`registry.example/a:v1@sha256:${hex}`, 'registry.example', 'a', 'v1'],
    [`registry.example/a@sha256:${hex}`, 'registry.example', 'a', undefined],
  ];
  for (const [text, registry, repository, tag] of good) {
    test(text.slice(0, 50), () => {
      const found = parseReference(text);
      assert.deepEqual([found.registry, found.repository, found.tag], [registry, repository, tag]);
    });
  }
  const bad = [
    '',
    'registry.example/',
    'a b',
    'a/B',
    'a:',
    'a@sha256:1',
    'a@b@c',
    'a/../b',
    'registry.example:x/a',
    'a'.repeat(2000),
  ];
  for (const text of bad) {
    test(`${JSON.stringify(text.slice(0, 30))} is refused`, () =>
      assert.throws(() => parseReference(text), /not a reference/));
  }
});

suite('registries.conf', () => {
  test('the supported TOML', () => {
    const text =
      `
      unqualified-search-registries = ["a", 'b'] # a comment
      [[registry]]
      prefix = "registry.example/\\u0061" ; `.replace(' ;', '') +
      `
      location = 'mirror.example'
      mirror = [ { location = "m1", insecure = true }, {location="m2"} ]
      [aliases]
      "short/name" = "registry.example/name"
    `;
    assert.deepEqual(parseRegistriesConf(text, 't').entries, [
      {
        ...{ prefix: 'registry.example/a', location: 'mirror.example', insecure: false, blocked: false },
        mirrors: [
          { location: 'm1', insecure: true, pulls: 'all' },
          { location: 'm2', insecure: false, pulls: 'all' },
        ],
      },
    ]);
  });

  const broken: readonly (readonly [string, RegExp])[] = [
    ['a = 1\na = 2', /t, line 2: trying to redefine/],
    ['[a]\n[a]', /line 2: trying to redefine/],
    ['a = "x', /line 1: unfinished string$/],
    ['a = true b = 1', /must be followed by an end-of-line/],
    ['a = [1', /expected comma or end of structure/],
    ['a = "\\x"', /escape/],
    [`a = ${'['.repeat(100)}`, /nested/],
    ['__proto__ = 1\n[__proto__.x]', /line 2: /],
    ['__proto__ = 1', /unknown key "__proto__"/],
  ];
  for (const [text, message] of broken) {
    test(`${JSON.stringify(text.slice(0, 20))} is refused`, () =>
      assert.throws(() => parseRegistriesConf(text, 't'), message));
  }

  test('where to ask: the longest prefix, its mirrors, wildcards; what is blocked or not known', () => {
    const conf = parseRegistriesConf(
      `[[registry]]
       location = "registry.example"
       [[registry]]
       prefix = "registry.example/team"
       location = "other.example/x"
       mirror-by-digest-only = true
       [[registry.mirror]]
       location = "mirror.example"
       [[registry]]
       prefix = "*.corp.example"
       insecure = true
       [[registry]]
       location = "bad.example"
       blocked = true`,
      't',
    );
    const where = (text: string): string[] =>
      endpointsOf(parseReference(text), conf).map(
        ({ registry, repository, insecure }) => `${registry}/${repository} ${insecure}`,
      );
    assert.deepEqual(where('registry.example/a:v1'), ['registry.example/a false']);
    assert.deepEqual(where('registry.example/team/p:v1'), ['other.example/x/p false']);
    assert.deepEqual(where(`registry.example/team/p@sha256:${hex}`), [
      'mirror.example/p false',
      'other.example/x/p false',
    ]);
    assert.deepEqual(where('a.corp.example/p'), ['a.corp.example/p true']);
    assert.deepEqual(where('registry.example.evil.example/p'), ['registry.example.evil.example/p false']);
    assert.throws(() => where('bad.example/p'), /registries.conf blocks bad.example/);
    assert.throws(
      () => parseRegistriesConf('[[registry]]\nlocaton = "a"', 't'),
      /unknown key "(localton|locaton)"/,
    );
    assert.throws(() => parseRegistriesConf('[registries.search]\nregistries = []', 't'), /version 1/);
  });
});

suite('credentials', () => {
  const auth = (text: string): object => ({ auth: Buffer.from(text).toString('base64') });
  test('by registry, port, path and wildcard, the most specific first', () => {
    const of = credentialsOfDockerConfig(
      JSON.stringify({
        auths: {
          'https://index.docker.io/v1/': auth('hub:x'),
          'registry.example': auth('all:pass:word'),
          'registry.example/team': auth('team:x'),
          'registry.example:5000': auth('port:x'),
          '*.corp.example': { username: 'corp', password: 'x' },
          'token.example': { identitytoken: 't' },
          'helper.example': {},
        },
      }),
      'test',
    );
    const who = (registry: string, repository: string): string | undefined =>
      of(registry, repository)?.username;
    assert.equal(who('docker.io', 'library/alpine'), 'hub');
    assert.deepEqual(of('registry.example', 'a'), { username: 'all', password: 'pass:word' });
    assert.equal(who('registry.example', 'team/a'), 'team');
    assert.equal(who('registry.example', 'teams/a'), 'all');
    assert.equal(who('registry.example:5000', 'a'), 'port');
    assert.equal(who('a.corp.example', 'a'), 'corp');
    assert.equal(who('a.b.corp.example', 'a'), undefined);
    assert.equal(who('token.example', 'a'), '<token>');
    assert.equal(who('helper.example', 'a'), undefined);
  });

  test('an invalid pull secret is reported without its content', () => {
    for (const data of [{}, { '.dockerconfigjson': Buffer.from('{"hunter2').toString('base64') }]) {
      assert.throws(
        () => credentialsOfSecrets([{ name: 'pull', secret: { type: 'Opaque', data } }]),
        (error: Error) => /Secret pull/.test(error.message) && !error.message.includes('hunter2'),
      );
    }
  });

  test('challenges as registries write them', () => {
    assert.deepEqual(
      parseChallenges(
        'Bearer realm="https://a/t",service="s, \\"x\\"",scope="repository:a:pull", Basic realm=b',
      ),
      [
        {
          scheme: 'bearer',
          parameters: { realm: 'https://a/t', service: 's, "x"', scope: 'repository:a:pull' },
        },
        { scheme: 'basic', parameters: { realm: 'b' } },
      ],
    );
  });

  test('a token is fetched with the password once, and used for all that follows; the password goes nowhere else', async () => {
    const config = Buffer.from('{}');
    const manifest = Buffer.from(
      JSON.stringify({
        schemaVersion: 2,
        config: { mediaType: 'x', digest: digestOf(config), size: 2 },
        layers: [],
      }),
    );
    const seen: string[] = [];
    const server = createServer((request, response) => {
      const { authorization = '' } = request.headers;
      const url = request.url ?? '';
      seen.push(`${request.method} ${url.split('?')[0]} ${authorization}`);
      if (url.startsWith('/token'))
        return void response.end(JSON.stringify({ token: 'abc', expires_in: 300 }));
      if (authorization !== 'Bearer abc') {
        const { port } = server.address() as AddressInfo;
        response.setHeader('www-authenticate', `Bearer realm="http://127.0.0.1:${port}/token",service="s"`);
        return void response.writeHead(401).end();
      }
      const body = url.includes('/blobs/') ? config : manifest;
      response.setHeader('docker-content-digest', digestOf(body));
      response.end(request.method === 'HEAD' ? undefined : body);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    const cacheDirectory = mkdtempSync(join(tmpdir(), 'rampart-oci-'));
    try {
      const logger = createLogger({ level: 'silent' });
      await using registry = await openRegistry({ cacheDirectory, insecureSources: [host], logger });
      const credentials = () => ({ username: 'u', password: 'p' });
      await registry.pull(`${host}/team/a:v1`, { credentials });
      const basic = `Basic ${Buffer.from('u:p').toString('base64')}`;
      assert.deepEqual(seen, [
        'HEAD /v2/team/a/manifests/v1 ',
        `GET /token ${basic}`,
        'HEAD /v2/team/a/manifests/v1 Bearer abc',
        `GET /v2/team/a/manifests/${digestOf(manifest)} Bearer abc`,
        `GET /v2/team/a/blobs/${digestOf(config)} Bearer abc`,
      ]);
    } finally {
      server.close();
      rmSync(cacheDirectory, { recursive: true, force: true });
    }
  });
});
