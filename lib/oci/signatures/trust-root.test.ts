import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { errorCodes, RampartError } from '../../errors/errors.ts';
import { keylessVerifier } from './keyless.ts';
import {
  bundleAnnotation,
  certificateAnnotation,
  type SignatureAnnotations,
  signatureAnnotation,
  SigstoreFixture,
} from './sigstore.fixture.ts';
import { parseTrustRoot } from './trust-root.ts';

const issuer = 'https://issuer.example';
const sigstore = new SigstoreFixture();

suite('a signature without keys, and the trust root', () => {
  const payload = Buffer.from('payload');
  const root = parseTrustRoot(sigstore.trustRoot, 'root.json');
  const signatureOf = (annotations: SignatureAnnotations) => ({
    payload,
    signature: Buffer.from(annotations[signatureAnnotation] ?? '', 'base64'),
    certificate: annotations[certificateAnnotation],
    bundle: annotations[bundleAnnotation],
  });

  test('one bit that is changed anywhere makes it untrusted', () => {
    const verify = keylessVerifier(root);
    const whole = signatureOf(sigstore.sign(payload));
    assert.deepEqual(verify(whole), { issuer, subject: 'dev@team.example', subjectKind: 'email' });
    const flipped = (bytes: Uint8Array, index: number): Buffer => {
      const copy = Buffer.from(bytes);
      copy[index] = (copy[index] ?? 0) ^ 1;
      return copy;
    };
    for (let index = 0; index < whole.signature.length; index += 5) {
      const signature = flipped(whole.signature, index);
      assert.ok('why' in verify({ ...whole, signature }), `signature, byte ${index}`);
    }
    const { SignedEntryTimestamp: promise, Payload: entry } = JSON.parse(whole.bundle ?? '') as Bundle;
    const bytesOf = (base64: string): Buffer => Buffer.from(base64, 'base64');
    for (let index = 0; index < bytesOf(promise).length; index += 5) {
      const SignedEntryTimestamp = flipped(bytesOf(promise), index).toString('base64');
      const bundle = JSON.stringify({ SignedEntryTimestamp, Payload: entry });
      assert.ok('why' in verify({ ...whole, bundle }), `promise, byte ${index}`);
    }
    for (let index = 0; index < bytesOf(entry.body).length; index += 97) {
      const body = flipped(bytesOf(entry.body), index).toString('base64');
      const bundle = JSON.stringify({ SignedEntryTimestamp: promise, Payload: { ...entry, body } });
      assert.ok('why' in verify({ ...whole, bundle }), `log entry, byte ${index}`);
    }
    for (const change of [{ integratedTime: entry.integratedTime + 1 }, { logIndex: 8 }, { logID: '00' }]) {
      const bundle = JSON.stringify({ SignedEntryTimestamp: promise, Payload: { ...entry, ...change } });
      assert.ok('why' in verify({ ...whole, bundle }), JSON.stringify(change));
    }
    for (let index = 0; index < payload.length; index += 1) {
      assert.ok('why' in verify({ ...whole, payload: flipped(payload, index) }), `payload, byte ${index}`);
    }
  });

  const unusable: readonly (readonly [string, unknown, RegExp])[] = [
    ['text', 'root', /it is not a mapping/],
    [
      'without authorities',
      { ...sigstore.trustRoot, certificateAuthorities: [] },
      /no certificateAuthorities/,
    ],
    ['without a log of signatures', { ...sigstore.trustRoot, tlogs: undefined }, /it has no tlogs/],
    ['without a log of certificates', { ...sigstore.trustRoot, ctlogs: [] }, /it has no ctlogs/],
    ['with a key that is none', { ...sigstore.trustRoot, tlogs: [{ publicKey: { rawBytes: 'eA==' } }] }, /./],
  ];
  for (const [what, document, message] of unusable) {
    test(`a trust root ${what} is refused`, () => {
      assert.throws(
        () => keylessVerifier(parseTrustRoot(document, 'root.json')),
        (error: unknown) => {
          assert.ok(error instanceof RampartError, String(error));
          assert.equal(error.code, errorCodes.INPUT);
          assert.match(
            error.message,
            /the Sigstore trust root root\.json cannot be used: .*cosign trusted-root/,
          );
          assert.match(error.message, message);
          return true;
        },
      );
    });
  }
});

interface Bundle {
  readonly SignedEntryTimestamp: string;
  readonly Payload: { readonly body: string; readonly integratedTime: number };
}
