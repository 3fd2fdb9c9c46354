import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { test } from 'node:test';

import { brief, intermediate, otherRoot, root, server, signer } from './certificates.fixture.ts';
import { certificateTrust } from './certificates.ts';

const day = 86_400_000;
const made = Date.parse(new X509Certificate(brief).validFrom);
const atNoon = made + day / 2;

const pem = (text: string) => ({ encoding: 'Pem', data: [...Buffer.from(text)] });
const der = (text: string) => ({ encoding: 'Der', data: [...new X509Certificate(text).raw] });
const chain = [pem(intermediate), pem(root)];
const trusted = { trusted: true, reason: '' };
const distrusted = (reason: string) => ({ trusted: false, reason });

test('a certificate is trusted by its chain, in either encoding', () => {
  assert.deepEqual(certificateTrust({ cert: pem(signer), cert_chain: chain }, atNoon), trusted);
  const encoded = { cert: der(signer), cert_chain: [der(intermediate), der(root)] };
  assert.deepEqual(certificateTrust(encoded, atNoon), trusted);
  const base64 = { encoding: 'Pem', data: Buffer.from(signer).toString('base64') };
  assert.deepEqual(certificateTrust({ cert: base64, cert_chain: chain }, atNoon), trusted);
});

test('no chain at all is trust, as upstream has it; an empty one is not', () => {
  assert.deepEqual(certificateTrust({ cert: pem(signer) }, atNoon), trusted);
  assert.deepEqual(certificateTrust({ cert: pem(signer), cert_chain: null }, atNoon), trusted);
  const unknown = distrusted('Certificate not trusted: UnknownIssuer');
  assert.deepEqual(certificateTrust({ cert: pem(signer), cert_chain: [] }, atNoon), unknown);
});

test('a chain that does not lead to the certificate is not trusted', () => {
  const ask = (certificate: string, ...by: string[]) =>
    certificateTrust({ cert: pem(certificate), cert_chain: by.map(pem) }, atNoon);
  const foreign = distrusted('Certificate is not trusted by the provided cert chain');
  assert.deepEqual(ask(signer, intermediate, otherRoot), foreign);
  assert.deepEqual(ask(signer, root), distrusted('Certificate not trusted: UnknownIssuer'));
  assert.deepEqual(ask(signer, intermediate), trusted, 'the last of a chain is the root');
  assert.deepEqual(
    ask(server, intermediate, root),
    distrusted('Certificate not trusted: RequiredEkuNotFound'),
  );
  assert.deepEqual(ask(intermediate, root), distrusted('Certificate not trusted: CaUsedAsEndEntity'));
});

test('a certificate holds during its time only', () => {
  const ask = (nowMs: number, notAfter?: string) =>
    certificateTrust({ cert: pem(brief), cert_chain: chain, not_after: notAfter }, nowMs);
  assert.deepEqual(ask(atNoon), trusted);
  assert.deepEqual(ask(made - day), distrusted('Certificate is being used before its validity date'));
  assert.deepEqual(ask(made + 2 * day), distrusted('Certificate not trusted: CertExpired'));
  assert.deepEqual(ask(made + 2 * day, new Date(atNoon).toISOString()), trusted);
  assert.deepEqual(
    ask(atNoon, new Date(made + 2 * day).toISOString()),
    distrusted('Certificate is being used after its expiration date'),
  );
});

test('an invalid certificate or time is an error', () => {
  const invalid = /^Error: Certificate is not a valid DER or PEM encoded certificate$/;
  assert.throws(() => certificateTrust({ cert: { encoding: 'Pem', data: [1, 2] } }), invalid);
  assert.throws(() => certificateTrust({ cert: { encoding: 'Text', data: [] } }), invalid);
  assert.throws(
    () => certificateTrust({ cert: pem(signer), not_after: 'tomorrow' }),
    /^Error: Timestamp not_after is not in RFC3339 format$/,
  );
  assert.throws(() => certificateTrust('x'), /an object is required/);
});
