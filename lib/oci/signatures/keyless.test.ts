/** Signatures without keys, in Debian's docker-registry, of a Sigstore instance made here. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';

import { errorCodes, RampartError } from '../../errors/errors.ts';
import { createLogger } from '../../telemetry/log.ts';
import { sampled } from '../../testing/depth.fixture.ts';
import { digestOf } from '../digest.ts';
import { RegistryFixture } from '../registry.fixture.ts';
import { openRegistry } from '../open-registry.ts';
import { signAs } from './signing.fixture.ts';
import {
  bundleAnnotation,
  certificateAnnotation,
  type KeylessSigning,
  type SignatureAnnotations,
  SigstoreFixture,
} from './sigstore.fixture.ts';
import { verifySignatures } from './signatures.ts';
import { parseTrustRoot } from './trust-root.ts';
import { parseVerification } from './verification.ts';

const logger = createLogger({ level: 'silent' });
const issuer = 'https://issuer.example';
const githubIssuer = 'https://token.actions.githubusercontent.com';
const workflow = 'https://github.com/team/app/.github/workflows/release.yml@refs/tags/v1';
const dev = { kind: 'genericIssuer', issuer, subject: { equal: 'dev@team.example' } };
const sigstore = new SigstoreFixture();

suite('signatures without keys', () => {
  let server: RegistryFixture;
  let directory: string;
  before(async () => {
    directory = mkdtempSync(join(tmpdir(), 'rampart-keyless-'));
    server = await RegistryFixture.start({ tls: true });
  });
  after(async () => {
    await server[Symbol.asyncDispose]();
    rmSync(directory, { recursive: true, force: true });
  });

  let count = 0;
  /** Pushes an artifact, signs it, and verifies it where these signatures are required. */
  async function verified(
    by: readonly ((payload: Uint8Array) => SignatureAnnotations)[],
    document: object,
    trustRoot: object | null = sigstore.trustRoot,
    digest?: string,
  ): Promise<void> {
    count += 1;
    const repository = `keyless/artifact-${count}`;
    const pushed = await server.pushWasm(repository, 'v1', Buffer.from(`\0asm\x01\0\0\0${count}`));
    const signings = by.map((one) => ({ by: one, ...(digest !== undefined && { digest }) }));
    await signAs(server, pushed, repository, signings);
    const authorities = { [server.host]: [server.authority] };
    await using registry = await openRegistry({ cacheDirectory: directory, authorities, logger });
    const terms = {
      verification: parseVerification({ apiVersion: 'v1', ...document }, 'verification.yml'),
      ...(trustRoot !== null && { trustRoot: parseTrustRoot(trustRoot, 'root.json') }),
      trustRootHint: 'Set one',
    };
    await verifySignatures(registry, await registry.pull(pushed.reference), terms, {});
  }

  const signed =
    (signing?: KeylessSigning, by = sigstore) =>
    (payload: Uint8Array): SignatureAnnotations =>
      by.sign(payload, signing);
  const changed =
    (change: (annotations: SignatureAnnotations) => object, signing?: KeylessSigning) =>
    (payload: Uint8Array): SignatureAnnotations => {
      const annotations = sigstore.sign(payload, signing);
      return { ...annotations, ...change(annotations) };
    };
  /** The entry of the log, changed after it was signed. */
  const relogged = (change: (bundle: Bundle) => void, signing?: KeylessSigning) =>
    changed((annotations) => {
      const bundle = JSON.parse(annotations[bundleAnnotation] ?? '') as Bundle;
      change(bundle);
      return { [bundleAnnotation]: JSON.stringify(bundle) };
    }, signing);

  const trusted: readonly (readonly [string, KeylessSigning, object])[] = [
    ['an e-mail address', {}, { allOf: [dev] }],
    ['an issuer in the old extension', { issuerVersion: 1 }, { allOf: [dev] }],
    ['the first second of the certificate', { loggedAfterMs: 0 }, { allOf: [dev] }],
    ['the last second of the certificate', { loggedAfterMs: 600_000 }, { allOf: [dev] }],
    [
      'a URL',
      { subject: workflow },
      { allOf: [{ kind: 'genericIssuer', issuer, subject: { equal: workflow } }] },
    ],
    [
      'what is below a URL',
      { subject: workflow },
      { allOf: [{ kind: 'genericIssuer', issuer, subject: { urlPrefix: 'https://github.com/team' } }] },
    ],
    [
      'a repository of GitHub',
      { subject: workflow, issuer: githubIssuer },
      { allOf: [{ kind: 'githubAction', owner: 'team', repo: 'app' }] },
    ],
    ['one of several', {}, { anyOf: { signatures: [{ kind: 'githubAction', owner: 'team' }, dev] } }],
  ];
  for (const [what, signing, document] of sampled(trusted, 2)) {
    test(`${what} is trusted`, async () => {
      await verified([signed(signing)], document);
    });
  }

  test('one valid signature among several is enough', async () => {
    const foreign = new SigstoreFixture();
    await verified([signed({}, foreign), signed({ subject: 'x@y.example' }), signed()], { allOf: [dev] });
  });

  test('a ClientTrustConfig is a trust root too', async () => {
    const config = {
      mediaType: 'application/vnd.dev.sigstore.clienttrustconfig.v0.1+json',
      trustedRoot: sigstore.trustRoot,
      signingConfig: {},
    };
    await verified([signed()], { allOf: [dev] }, config);
  });

  const foreign = new SigstoreFixture();
  const refused: readonly (readonly [
    string,
    (payload: Uint8Array) => SignatureAnnotations,
    object,
    RegExp,
  ])[] = [
    [
      'another issuer',
      signed({ issuer: 'https://evil.example' }),
      dev,
      /dev@team\.example by https:\/\/issuer\.example \(its issuer is https:\/\/evil\.example, not https:\/\/issuer\.example\)/,
    ],
    [
      'another subject',
      signed({ subject: 'eve@team.example' }),
      dev,
      /its subject is eve@team\.example, not dev@team\.example/,
    ],
    [
      'a repository whose name begins as the one that is wanted',
      signed({ subject: workflow.replace('/app/', '/app-2/'), issuer: githubIssuer }),
      { kind: 'githubAction', owner: 'team', repo: 'app' },
      /its subject is .*team\/app-2\/.*, which does not start with https:\/\/github\.com\/team\/app\/\)/,
    ],
    [
      'a URL that leaves its prefix',
      signed({ subject: 'https://github.com/team/../eve/x', issuer: githubIssuer }),
      { kind: 'githubAction', owner: 'team' },
      /which does not start with https:\/\/github\.com\/team\//,
    ],
    [
      'a log entry from after the certificate',
      signed({ loggedAfterMs: 601_000 }),
      dev,
      /its certificate was valid from \S+ to \S+, and the transparency log received it at /,
    ],
    [
      'a log entry from before the certificate',
      signed({ loggedAfterMs: -1000 }),
      dev,
      /its certificate was valid from /,
    ],
    [
      'a log entry that is dated back',
      relogged(({ Payload }) => (Payload.integratedTime -= 300), { loggedAfterMs: 601_000 }),
      dev,
      /its signed entry timestamp is not from a transparency log of the trust root root\.json/,
    ],
    [
      'a damaged promise of the log',
      relogged((bundle) => {
        const promise = Buffer.from(bundle.SignedEntryTimestamp, 'base64');
        promise[promise.length - 1] = (promise.at(-1) ?? 0) ^ 1;
        bundle.SignedEntryTimestamp = promise.toString('base64');
      }),
      dev,
      /its signed entry timestamp is not from a transparency log/,
    ],
    [
      'another log',
      changed(() => ({ [bundleAnnotation]: foreign.sign(Buffer.from('x'))[bundleAnnotation] })),
      dev,
      /its transparency log entry names another certificate/,
    ],
    [
      'another authority',
      signed({}, foreign),
      dev,
      /is not issued by a certificate authority of the trust root root\.json/,
    ],
    [
      'a certificate that is in no log',
      signed({ certificateLogged: false }),
      dev,
      /not proven to be in a certificate transparency log of the trust root root\.json/,
    ],
    [
      'a certificate for servers',
      signed({ extendedKeyUsage: '1.3.6.1.5.5.7.3.1' }),
      dev,
      /is not for signing code/,
    ],
    [
      'the signature of another payload',
      (payload) => sigstore.sign(Buffer.concat([payload, Buffer.from(' ')])),
      dev,
      /its transparency log entry is for something else/,
    ],
    ['no certificate', changed(() => ({ [certificateAnnotation]: undefined })), dev, /it has no certificate/],
    [
      'a certificate that is none',
      changed(() => ({ [certificateAnnotation]: 'x' })),
      dev,
      /its certificate is malformed/,
    ],
    [
      'no log entry',
      changed(() => ({ [bundleAnnotation]: undefined })),
      dev,
      /it has no signed entry timestamp/,
    ],
    [
      'a log entry that is none',
      changed(() => ({ [bundleAnnotation]: '{}' })),
      dev,
      /its transparency log entry is malformed/,
    ],
    [
      'what the signer did not say',
      signed(),
      { ...dev, annotations: { env: 'prod' } },
      /its annotation env is not prod/,
    ],
  ];
  for (const [what, by, requirement, message] of sampled(refused, 4)) {
    test(`${what} is refused`, async () => {
      await assert.rejects(verified([by], { allOf: [requirement] }), refusedFor(message));
    });
  }

  test('the signature of another artifact is refused', async () => {
    const digest = digestOf(Buffer.from('other'));
    await assert.rejects(
      verified([signed()], { allOf: [dev] }, sigstore.trustRoot, digest),
      refusedFor(/none of its 0 signatures matches: dev@team\.example by/),
    );
  });

  test('too few of several are refused, with the reason of each', async () => {
    const anyOf = { minimumMatches: 2, signatures: [dev, { kind: 'githubAction', owner: 'team' }] };
    await assert.rejects(
      verified([signed()], { anyOf }),
      refusedFor(
        /only 1 of the accepted signers signed it, and 2 are required; none of its \d+ signatures matches: https:.*its issuer is /,
      ),
    );
  });

  test('without a trust root, nothing is trusted', async () => {
    await assert.rejects(
      verified([signed()], { allOf: [dev] }, null),
      refusedFor(
        /\(dev@team\.example by .*\) requires a trust root, and none is configured\. Set one; or sign it/,
      ),
    );
  });
});

interface Bundle {
  SignedEntryTimestamp: string;
  readonly Payload: { integratedTime: number };
}

function refusedFor(message: RegExp) {
  return (error: unknown): boolean => {
    assert.ok(error instanceof RampartError, String(error));
    assert.equal(error.code, errorCodes.PRIVILEGE, error.message);
    assert.match(error.message, /keyless\/\S+ \(sha256:[0-9a-f]{64}\) is not trusted: /);
    assert.match(error.message, message);
    return true;
  };
}
