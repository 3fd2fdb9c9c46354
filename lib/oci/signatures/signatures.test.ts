import assert from 'node:assert/strict';
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';

import { errorCodes, RampartError } from '../../errors/errors.ts';
import { createLogger } from '../../telemetry/log.ts';
import { digestOf } from '../digest.ts';
import { openRegistry } from '../open-registry.ts';
import { type Pushed, RegistryFixture } from '../registry.fixture.ts';
import type { Registry } from '../registry.ts';
import { verifySignatures } from './signatures.ts';
import { signAs, type Signing } from './signing.fixture.ts';
import { parseVerification } from './verification.ts';

const failsWith =
  (message: RegExp) =>
  (error: unknown): boolean => {
    assert.ok(error instanceof RampartError, String(error));
    assert.equal(error.code, errorCodes.PRIVILEGE, error.message);
    assert.match(error.message, message);
    return true;
  };

suite('signatures with keys', () => {
  let server: RegistryFixture;
  let directory: string;
  let registry: Registry;
  before(async () => {
    directory = mkdtempSync(join(tmpdir(), 'rampart-signatures-'));
    server = await RegistryFixture.start();
    registry = await openRegistry({
      ...{ cacheDirectory: directory, insecureSources: [server.host] },
      logger: createLogger({ level: 'silent' }),
    });
  });
  after(async () => {
    await registry[Symbol.asyncDispose]();
    await server[Symbol.asyncDispose]();
    rmSync(directory, { recursive: true, force: true });
  });

  const alice = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const bob = generateKeyPairSync('ed25519');
  const carol = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const pubKey = (key: KeyObject, more: object = {}): object => ({
    ...{ kind: 'pubKey', key: key.export({ type: 'spki', format: 'pem' }) },
    ...more,
  });

  async function pushed(
    repository: string,
    signings: (pushed: Pushed) => readonly Signing[],
  ): Promise<string> {
    const artifact = await server.push(repository, 'v1', { layers: [] });
    await signAs(server, artifact, repository, signings(artifact));
    return artifact.reference;
  }

  async function verify(reference: string, document: object): Promise<void> {
    const verification = parseVerification({ apiVersion: 'v1', ...document }, 'test');
    const terms = { verification, trustRootHint: 'Set one' };
    await verifySignatures(registry, await registry.pull(reference), terms, {});
  }

  test('all that are required, by keys of each kind', async () => {
    const keys = [alice, bob, carol];
    const reference = await pushed('signed/all', () => keys.map(({ privateKey }) => ({ by: privateKey })));
    await verify(reference, { allOf: keys.map(({ publicKey }) => pubKey(publicKey)) });
  });

  test('one of several', async () => {
    const reference = await pushed('signed/any', () => [{ by: bob.privateKey }]);
    const signatures = [pubKey(alice.publicKey), pubKey(bob.publicKey)];
    await verify(reference, { anyOf: { signatures } });
    await assert.rejects(
      verify(reference, { anyOf: { minimumMatches: 2, signatures } }),
      failsWith(/only 1 of .* 2 are required/),
    );
  });

  test('annotations that the signer must have stated', async () => {
    const optional = { env: 'prod', more: 'x' };
    const reference = await pushed('signed/notes', () => [{ by: alice.privateKey, optional }]);
    await verify(reference, { allOf: [pubKey(alice.publicKey, { annotations: { env: 'prod' } })] });
    const stage = { allOf: [pubKey(alice.publicKey, { annotations: { env: 'stage' } })] };
    await assert.rejects(verify(reference, stage), failsWith(/is not trusted/));
  });

  const refusals: readonly (readonly [string, (pushed: Pushed) => Signing[]])[] = [
    ['by another key', () => [{ by: bob.privateKey }]],
    ['of another artifact', () => [{ by: alice.privateKey, digest: digestOf(Buffer.from('other')) }]],
    ['that is damaged', () => [{ by: alice.privateKey, break: true }]],
  ];
  for (const [what, signings] of refusals) {
    test(`a signature ${what} is refused`, async () => {
      const reference = await pushed(`signed/${what.replaceAll(' ', '-')}`, signings);
      await assert.rejects(
        verify(reference, { allOf: [pubKey(alice.publicKey, { owner: 'alice' })] }),
        failsWith(/is not trusted: .* public key of alice/),
      );
    });
  }
});

suite('requirements', () => {
  const refused: readonly (readonly [string, () => unknown, RegExp])[] = [
    ['another version', () => parseVerification({ apiVersion: 'v2' }, 'v'), /must be v1/],
    ['no requirement', () => parseVerification({ apiVersion: 'v1' }, 'v'), /requires no signature/],
    [
      'an empty anyOf',
      () => parseVerification({ apiVersion: 'v1', anyOf: { signatures: [] } }, 'v'),
      /requires no signature/,
    ],
    [
      'more matches than signers',
      () =>
        parseVerification(
          {
            apiVersion: 'v1',
            anyOf: { minimumMatches: 2, signatures: [{ kind: 'githubAction', owner: 'a' }] },
          },
          'v',
        ),
      /is 2, but anyOf.signatures has 1/,
    ],
    [
      'a malformed key',
      () => parseVerification({ apiVersion: 'v1', allOf: [{ kind: 'pubKey', key: 'x' }] }, 'v'),
      /not a PEM public key/,
    ],
    [
      'a typo',
      () => parseVerification({ apiVersion: 'v1', allOf: [{ kind: 'pubKey', keys: 'x' }] }, 'v'),
      /unknown key "keys"/,
    ],
  ];
  for (const [what, parse, message] of refused) {
    test(`${what} is refused`, () => assert.throws(parse, message));
  }
});
