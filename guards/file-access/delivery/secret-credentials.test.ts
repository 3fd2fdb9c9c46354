import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { suite, test } from 'node:test';

import { issueAuthority, issueServerCertificate } from '../../../lib/x509/certificate.ts';
import { RampartError } from '../../../lib/errors/errors.ts';
import type { Secret } from '../../../lib/kube/object/object.ts';
import * as fc from '../../../lib/testing/fast-check.fixture.ts';
import { credentialBytes, sameCredentials, secretCredentials } from './secret-credentials.ts';

const validity = { now: new Date(), days: 2 };
const authority = issueAuthority('receivers', validity);
const client = issueServerCertificate(authority, ['agent.example'], validity);
const other = issueServerCertificate(authority, ['agent.example'], validity);
const locked = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({
  type: 'pkcs8',
  format: 'pem',
  cipher: 'aes-256-cbc',
  passphrase: 'hush',
});

type Texts = Readonly<Record<string, string>>;

function secretOf(texts: Texts, type = 'Opaque'): Secret {
  const data = Object.entries(texts).map(([key, text]) => [key, Buffer.from(text).toString('base64')]);
  return { metadata: { namespace: 'shop', name: 'hook' }, type, data: Object.fromEntries(data) };
}

const read = (texts: Texts, type?: string) => secretCredentials(secretOf(texts, type), 'shop/hook');

suite('the credentials in a Secret', () => {
  test('any of its keys; others are of no interest', () => {
    assert.deepEqual(read({ token: 'abc.DEF-1_2~3+/4==' }), { bearerToken: 'abc.DEF-1_2~3+/4==' });
    assert.deepEqual(read({ 'ca.crt': authority.cert, username: 'x' }), { ca: authority.cert });
    const pair = { 'tls.crt': client.cert + authority.cert, 'tls.key': client.key };
    assert.deepEqual(read(pair, 'kubernetes.io/tls'), { cert: pair['tls.crt'], key: client.key });
    const all = read({ ...pair, token: 't', 'ca.crt': authority.cert });
    assert.deepEqual(Object.keys(all).sort(), ['bearerToken', 'ca', 'cert', 'key']);
    assert.ok(credentialBytes(all) > 2000);
    assert.ok(sameCredentials(all, { ...all }) && !sameCredentials(all, { ...all, bearerToken: 'u' }));
  });

  test('removes a line break at the end of a token; allows comments in a bundle', () => {
    assert.equal(read({ token: 'abc\n' }).bearerToken, 'abc');
    assert.equal(read({ token: 'abc\r\n' }).bearerToken, 'abc');
    const bundle = `# ours\n${authority.cert}\n# the other\n${issueAuthority('b', validity).cert.replaceAll('\n', '\r\n')}`;
    assert.equal(read({ 'ca.crt': bundle }).ca, bundle);
  });

  const cut = authority.cert.slice(0, -30);
  for (const [what, texts, why] of [
    ['none of the keys', { password: 'hush' }, /none of the keys token, tls\.crt, tls\.key, ca\.crt/],
    ['nothing', {}, /none of the keys/],
    ['an empty token', { token: '' }, /key token is empty/],
    ['a token of two lines', { token: 'hush\nhush' }, /key token contains a line break/],
    ['a token with two breaks at its end', { token: 'hush\n\n' }, /key token contains a line break/],
    ['a token that is a header', { token: 'Bearer hush' }, /key token contains characters/],
    ['a token with a colon', { token: 'user:hush' }, /key token contains characters/],
    ['a token of 9 KiB', { token: 'hush'.repeat(2304) }, /key token is longer than 8192 bytes/],
    ['a certificate without its key', { 'tls.crt': client.cert }, /tls\.crt but not tls\.key/],
    ['a key without its certificate', { 'tls.key': client.key }, /tls\.key but not tls\.crt/],
    [
      'another key',
      { 'tls.crt': client.cert, 'tls.key': other.key },
      /tls\.key does not match the certificate/,
    ],
    [
      'a key that is none',
      { 'tls.crt': client.cert, 'tls.key': 'hush' },
      /tls\.key is not an unencrypted private key/,
    ],
    [
      'a key with a passphrase',
      { 'tls.crt': client.cert, 'tls.key': String(locked) },
      /not an unencrypted private key/,
    ],
    [
      'a certificate that is none',
      { 'tls.crt': 'hush', 'tls.key': client.key },
      /tls\.crt does not contain certificates/,
    ],
    ['an authority that is none', { 'ca.crt': 'hush' }, /ca\.crt does not contain certificates/],
    ['an authority that is cut off', { 'ca.crt': cut }, /ca\.crt does not contain certificates/],
    [
      'the second of two cut off',
      { 'ca.crt': authority.cert + cut },
      /ca\.crt does not contain certificates/,
    ],
    [
      'PEM of nonsense',
      { 'ca.crt': authority.cert.replace(/MII/, 'AAA') },
      /ca\.crt does not contain certificates/,
    ],
    ['one good key, one bad', { token: 'good', 'ca.crt': 'hush' }, /ca\.crt does not contain certificates/],
    ['more than fits', { 'ca.crt': authority.cert.repeat(600) }, /more than 256 KiB/],
  ] as const) {
    test(`refused: ${what}`, () => {
      assert.throws(
        () => read(texts),
        (error) => {
          assert.ok(error instanceof RampartError && error.code === 'RAMPART_INPUT');
          assert.match(error.message, /^the Secret shop\/hook cannot be used: /);
          assert.match(error.message, why);
          assert.doesNotMatch(error.message, /hush/);
          return error.cause === undefined;
        },
      );
    });
  }

  test('tokens of service accounts are for the Kubernetes API', () => {
    assert.throws(
      () => read({ token: 'x', 'ca.crt': authority.cert }, 'kubernetes.io/service-account-token'),
      /service account/,
    );
  });

  test('whatever is in it, no error has any of it', () => {
    const mark = 'S3CR3T';
    const text = fc.string().map((rest) => `${rest}${mark}${rest}`);
    const keys = fc.constantFrom('token', 'tls.crt', 'tls.key', 'ca.crt');
    fc.assert(
      fc.property(fc.dictionary(keys, text, { minKeys: 1 }), (texts) => {
        try {
          read(texts);
        } catch (error) {
          assert.ok(error instanceof RampartError);
          assert.ok(!error.message.includes(mark));
        }
      }),
    );
  });
});
