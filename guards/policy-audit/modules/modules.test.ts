import assert from 'node:assert/strict';
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';

import { createServer } from '../../../lib/net/node-http.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { createLogger } from '../../../lib/telemetry/log.ts';
import { digestOf } from '../../../lib/oci/digest.ts';
import { type Pushed, RegistryFixture } from '../../../lib/oci/registry.fixture.ts';
import type { Modules } from './modules.ts';
import { type ModulesOptions, openModules } from './open-modules.ts';
import { signAs } from '../../../lib/oci/signatures/signing.fixture.ts';
import { parseSources } from './sources.ts';
import { parseVerification } from '../../../lib/oci/signatures/verification.ts';

const logger = createLogger({ level: 'silent' });
const wasm = (text: string): Uint8Array => Buffer.concat([Buffer.from('\0asm\x01\0\0\0'), Buffer.from(text)]);

class Opened implements AsyncDisposable {
  readonly modules: Modules;
  readonly directory: string;

  private constructor(modules: Modules, directory: string) {
    this.modules = modules;
    this.directory = directory;
  }

  static async open(options: Partial<ModulesOptions> = {}): Promise<Opened> {
    const directory = mkdtempSync(join(tmpdir(), 'rampart-modules-'));
    return new Opened(await openModules({ cacheDirectory: directory, logger, ...options }), directory);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.modules[Symbol.asyncDispose]();
    rmSync(this.directory, { recursive: true, force: true });
  }
}

const failsWith =
  (code: string, message?: RegExp) =>
  (error: unknown): boolean => {
    assert.ok(error instanceof RampartError, String(error));
    assert.equal(error.code, code, error.message);
    if (message !== undefined) assert.match(error.message, message);
    return true;
  };

suite('modules of registries', () => {
  let server: RegistryFixture;
  before(async () => void (server = await RegistryFixture.start()));
  after(() => server[Symbol.asyncDispose]());
  const insecure = (): Partial<ModulesOptions> => ({
    sources: parseSources({ insecure_sources: [server.host] }, 'test'),
  });

  test('a module, with and without its scheme, by its tag and after it has moved', async () => {
    const first = await server.pushWasm('policies/a', 'v1', wasm('first'));
    await using opened = await Opened.open(insecure());
    for (const url of [`registry://${first.reference}`, first.reference]) {
      const found = await opened.modules.fetch(url);
      assert.equal(found.digest, digestOf(wasm('first')));
      assert.equal(found.manifestDigest, first.digest);
      assert.deepEqual(Buffer.from(found.bytes), Buffer.from(wasm('first')));
    }
    await server.pushWasm('policies/a', 'v1', wasm('second'));
    assert.equal((await opened.modules.fetch(first.reference)).digest, digestOf(wasm('second')));
  });

  test('the registry is away: what was there is used, and the module says so', async () => {
    await using own = await RegistryFixture.start();
    const pushed = await own.pushWasm('policies/a', 'v1', wasm('kept'));
    await using opened = await Opened.open({ sources: { insecure: [own.host], authorities: {} } });
    await opened.modules.fetch(pushed.reference);
    await own.pause();
    const found = await opened.modules.fetch(pushed.reference);
    assert.equal(found.digest, digestOf(wasm('kept')));
    assert.match(found.stale ?? '', /cannot fetch/);
    await assert.rejects(
      opened.modules.fetch(`${own.host}/policies/b:v1`),
      failsWith(errorCodes.API_UNREACHABLE),
    );
  });

  test('artifacts that are not policies', async () => {
    await using opened = await Opened.open({ ...insecure(), maxModuleBytes: 1000 });
    const layer = { mediaType: 'application/vnd.wasm.content.layer.v1+wasm', bytes: wasm('x') };
    const pushes: [Promise<Pushed>, string, RegExp][] = [
      [
        server.push('bad/type', 'v1', { layers: [{ ...layer, mediaType: 'text/plain' }] }),
        errorCodes.INPUT,
        /no WebAssembly layer, but text\/plain/,
      ],
      [
        server.push('bad/two', 'v1', { layers: [layer, layer] }),
        errorCodes.INPUT,
        /more than one WebAssembly layer/,
      ],
      [
        server.pushWasm('bad/bytes', 'v1', Buffer.from('#!/bin/sh')),
        errorCodes.INPUT,
        /not a WebAssembly module/,
      ],
      [
        server.pushWasm('bad/page', 'v1', Buffer.from('\n<html><head><title>Sign in</title>')),
        errorCodes.INPUT,
        /bad\/page:v1 is not a WebAssembly module: it is an HTML page/,
      ],
      [server.pushWasm('bad/short', 'v1', Buffer.from('\0a')), errorCodes.INPUT, /not a WebAssembly module/],
      [server.pushWasm('bad/large', 'v1', Buffer.alloc(2000)), errorCodes.LIMIT, /2000 bytes/],
    ];
    for (const [push, code, message] of pushes) {
      await assert.rejects(opened.modules.fetch((await push).reference), failsWith(code, message));
    }
  });

  suite('signatures', () => {
    const alice = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const pem = (key: KeyObject): string => key.export({ type: 'spki', format: 'pem' }).toString();
    const pubKey = (key: KeyObject): object => ({ kind: 'pubKey', key: pem(key) });
    const verified = (document: object): Promise<Opened> =>
      Opened.open({
        ...insecure(),
        verification: parseVerification({ apiVersion: 'v1', ...document }, 'test'),
      });

    test('a module with the required signature', async () => {
      const pushed = await server.pushWasm('signed/all', 'v1', wasm('all'));
      await signAs(server, pushed, 'signed/all', [{ by: alice.privateKey }]);
      await using opened = await verified({ allOf: [pubKey(alice.publicKey)] });
      assert.equal((await opened.modules.fetch(pushed.reference)).digest, digestOf(wasm('all')));
    });

    test('modules without a signature, and sources that cannot have one', async () => {
      const pushed = await server.pushWasm('signed/none', 'v1', wasm('none'));
      await using opened = await verified({ allOf: [pubKey(alice.publicKey)] });
      await assert.rejects(
        opened.modules.fetch(pushed.reference),
        failsWith(errorCodes.PRIVILEGE, /has no signatures/),
      );
      for (const url of ['file:///etc/hostname', 'https://policies.example/policy.wasm']) {
        await assert.rejects(
          opened.modules.fetch(url),
          failsWith(errorCodes.PRIVILEGE, /only modules from a registry/),
        );
      }
    });

    test('without keys, it is refused and said', async () => {
      const pushed = await server.pushWasm('signed/keyless', 'v1', wasm('keyless'));
      await using opened = await verified({ allOf: [{ kind: 'githubAction', owner: 'team' }] });
      await assert.rejects(
        opened.modules.fetch(pushed.reference),
        failsWith(errorCodes.PRIVILEGE, /Set one with --sigstore-trust-config, or in sigstoreTrustConfig/),
      );
    });
  });
});

suite('modules of files and of servers', () => {
  test('a file; one that is missing, not a module, or unreadable', async () => {
    await using opened = await Opened.open();
    const path = join(opened.directory, 'policy one.wasm');
    writeFileSync(path, wasm('file'));
    const url = `file://${path.replace(' ', '%20')}`;
    assert.equal((await opened.modules.fetch(url)).digest, digestOf(wasm('file')));
    await assert.rejects(opened.modules.fetch('file:///nowhere/x.wasm'), failsWith(errorCodes.NOT_FOUND));
    await assert.rejects(opened.modules.fetch('file:///etc/passwd'), (error: unknown) => {
      failsWith(errorCodes.INPUT)(error);
      assert.doesNotMatch((error as Error).message, /root/);
      return true;
    });
    await assert.rejects(
      opened.modules.fetch(`file://${opened.directory}`),
      failsWith(errorCodes.INPUT, /regular file/),
    );
  });

  test('a server without TLS where that is allowed; its last answer when it is away', async () => {
    let status = 200;
    const server = createServer((_, response) => response.writeHead(status).end(wasm('served')));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const url = `http://127.0.0.1:${port}/policy.wasm`;
    try {
      await using strict = await Opened.open();
      await assert.rejects(strict.modules.fetch(url), failsWith(errorCodes.INPUT, /would not use TLS/));
      await using opened = await Opened.open({ sources: { insecure: ['127.0.0.1'], authorities: {} } });
      assert.equal((await opened.modules.fetch(url)).digest, digestOf(wasm('served')));
      assert.equal(
        (await opened.modules.fetch(url.replace('http:', 'https:'))).digest,
        digestOf(wasm('served')),
      );
      status = 503;
      const stale = await opened.modules.fetch(url);
      assert.deepEqual([stale.digest, /503/.test(stale.stale ?? '')], [digestOf(wasm('served')), true]);
      // Damaged on disk: then there is nothing to fall back to.
      const blobs = join(opened.directory, 'https/blobs');
      for (const name of readdirSync(blobs)) writeFileSync(join(blobs, name), wasm('changed'));
      await assert.rejects(opened.modules.fetch(url), failsWith(errorCodes.API_UNREACHABLE));
      status = 404;
      await assert.rejects(opened.modules.fetch(url), failsWith(errorCodes.NOT_FOUND));
    } finally {
      server.close();
    }
  });

  for (const url of [
    '',
    'file://relative.wasm',
    'ftp://a/b',
    'https://user:pass@a/b',
    'registry://',
    'registry://UPPER/x y',
  ]) {
    test(`${JSON.stringify(url)} is not a module`, async () => {
      await using opened = await Opened.open();
      await assert.rejects(opened.modules.fetch(url), failsWith(errorCodes.INPUT));
    });
  }
});

suite('settings of sources', () => {
  const refused: readonly (readonly [string, () => unknown, RegExp])[] = [
    ['an unknown key', () => parseSources({ insecure: [] }, 's'), /unknown key "insecure"/],
    [
      'a host that is no list',
      () => parseSources({ source_authorities: { a: 'x' } }, 's'),
      /of a is not a list/,
    ],
    [
      'an authority that is none',
      () => parseSources({ source_authorities: { a: [{ type: 'Data', data: 'x' }] } }, 's'),
      /not a PEM certificate/,
    ],
    [
      'an authority without a file',
      () => parseSources({ source_authorities: { a: [{ type: 'Path', path: '/nowhere' }] } }, 's'),
      /cannot be read/,
    ],
  ];
  for (const [what, parse, message] of refused) {
    test(`${what} is refused`, () => assert.throws(parse, message));
  }
});
