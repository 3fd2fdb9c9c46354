import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { mkdtempDisposable } from 'node:fs/promises';
import { writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import * as fc from '../testing/fast-check.fixture.ts';
import { issueAuthority, issueServerCertificate } from './certificate.ts';
import { element, oid, time, unsignedInteger } from './der.ts';

const now = new Date('2026-03-01T12:00:00Z');
const hosts = [
  'localhost',
  'node-1.example.com',
  '127.0.0.1',
  '::1',
  '2001:db8::7:0:1',
  '10.1.2.3',
  '::ffff:10.0.0.1',
];

test('node reads the certificates, their names, uses and times', () => {
  const authority = issueAuthority('test-ca', { now, days: 3650 });
  const server = issueServerCertificate(authority, hosts, { now, days: 365 });
  const ca = new X509Certificate(authority.cert);
  const cert = new X509Certificate(server.cert);
  assert.equal(ca.ca, true);
  assert.equal(cert.ca, false);
  assert.ok(ca.verify(ca.publicKey));
  assert.ok(cert.verify(ca.publicKey));
  assert.ok(cert.checkIssued(ca));
  assert.ok(cert.checkPrivateKey(createPrivateKey(server.key)));
  assert.ok(!cert.checkPrivateKey(createPrivateKey(authority.key)));
  assert.equal(ca.validToDate.toISOString(), '2036-02-27T12:00:00.000Z');
  assert.equal(cert.validToDate.toISOString(), '2027-03-01T12:00:00.000Z');
  assert.equal(cert.validFromDate.toISOString(), '2026-03-01T11:00:00.000Z');
  assert.deepEqual(cert.keyUsage, ['1.3.6.1.5.5.7.3.1']);
  assert.ok(cert.checkHost('node-1.example.com') !== undefined);
  assert.equal(cert.checkHost('example.com'), undefined);
  for (const address of hosts.slice(2)) assert.ok(cert.checkIP(address) !== undefined, address);
  assert.equal(cert.checkIP('127.0.0.2'), undefined);
});

const openssl = spawnSync('openssl', ['version']).status === 0;

test('openssl agrees', { skip: openssl ? false : 'there is no openssl' }, async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'rampart-cert-'));
  const authority = issueAuthority('test-ca', { now: new Date(), days: 3650 });
  const other = issueAuthority('test-ca', { now: new Date(), days: 3650 });
  const server = issueServerCertificate(authority, hosts, { now: new Date(), days: 365 });
  const path = (name: string, text: string): string => {
    const file = join(directory.path, name);
    writeFileSync(file, text);
    return file;
  };
  const [ca, foreign, cert] = [
    path('ca', authority.cert),
    path('other', other.cert),
    path('crt', server.cert),
  ];
  const verify = (by: string): number | null =>
    spawnSync('openssl', ['verify', '-x509_strict', '-purpose', 'sslserver', '-CAfile', by, cert]).status;
  assert.equal(verify(ca), 0);
  assert.notEqual(verify(foreign), 0);
  const text = execFileSync('openssl', ['x509', '-in', cert, '-noout', '-text'], { encoding: 'utf8' });
  assert.match(text, /Version: 3 \(0x2\)/);
  assert.match(text, /Signature Algorithm: ecdsa-with-SHA256/);
  assert.match(text, /Key Usage: critical\s+Digital Signature\s/);
  assert.match(text, /TLS Web Server Authentication/);
  assert.match(
    text,
    /DNS:localhost, DNS:node-1.example.com, IP Address:127.0.0.1, IP Address:0:0:0:0:0:0:0:1/,
  );
  const caText = execFileSync('openssl', ['x509', '-in', ca, '-noout', '-text'], { encoding: 'utf8' });
  assert.match(caText, /Basic Constraints: critical\s+CA:TRUE, pathlen:0/);
  assert.match(caText, /Key Usage: critical\s+Certificate Sign, CRL Sign/);
});

test('an invalid host is refused', () => {
  const authority = issueAuthority('test-ca', { now, days: 1 });
  for (const host of ['', 'a b', 'a\u0000b', 'http://x', '-x', 'x'.repeat(64), 'é.example.com']) {
    assert.throws(() => issueServerCertificate(authority, [host], { now, days: 1 }), /neither a DNS name/);
  }
});

test('lengths, numbers, object identifiers and times have the forms of DER', () => {
  assert.equal(element(4, Buffer.alloc(127)).subarray(0, 2).toString('hex'), '047f');
  assert.equal(element(4, Buffer.alloc(128)).subarray(0, 3).toString('hex'), '048180');
  assert.equal(element(4, Buffer.alloc(70_000)).subarray(0, 5).toString('hex'), '0483011170');
  assert.equal(unsignedInteger(Buffer.from([0, 0, 1])).toString('hex'), '020101');
  assert.equal(unsignedInteger(Buffer.from([0x80])).toString('hex'), '02020080');
  assert.equal(oid('1.2.840.10045.4.3.2').toString('hex'), '06082a8648ce3d040302');
  assert.equal(time(new Date('2049-12-31T23:59:59Z')).toString('latin1', 2), '491231235959Z');
  assert.equal(time(new Date('2050-01-01T00:00:00Z')).toString('latin1', 2), '20500101000000Z');
});

test('any address is found again in the certificate', () => {
  const authority = issueAuthority('test-ca', { now, days: 1 });
  fc.assert(
    fc.property(fc.oneof(fc.ipV4(), fc.ipV6()), (address) => {
      const { cert } = issueServerCertificate(authority, [address], { now, days: 1 });
      assert.ok(new X509Certificate(cert).checkIP(address) !== undefined);
    }),
    { numRuns: 200 },
  );
});
