/** `oci/v1/verify` and `oci/v2/verify`: verify the signatures of an image for a policy. The payloads are those of Kubewarden's SDKs. */
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import type { PullOptions } from '../../../lib/oci/registry.ts';
import type { JsonObject } from '../engine/evaluator.ts';
import type { ImageVerifier } from '../engine/host-calls/images.ts';
import { payloadObject, textIn } from '../engine/host-calls/payload.ts';
import { type Modules, trustRootHint } from './modules.ts';
import { verifySignatures } from '../../../lib/oci/signatures/signatures.ts';
import { parseVerification, type Verification } from '../../../lib/oci/signatures/verification.ts';

/** Kinds of verification: in v2, `type` contains the name; in v1, the name is the only key. */
const kinds = [
  'SigstorePubKeyVerify',
  'SigstoreKeylessVerify',
  'SigstoreKeylessPrefixVerify',
  'SigstoreGithubActionsVerify',
  'SigstoreCertificateVerify',
];

/**
 * Verifies signatures by public keys or, with a trust root, keyless signatures. Verification by a certificate is
 * refused.
 *
 * @param modules - Images use the sources, authorities and trust root of modules.
 */
export function verifierOf(
  modules: Pick<Modules, 'registry' | 'trustRoot'>,
  options: Omit<PullOptions, 'signal'> = {},
): ImageVerifier {
  return {
    async verify(input, signal) {
      const { image, verification } = wantedOf(input);
      const [registry, trustRoot] = [await modules.registry(), await modules.trustRoot()];
      const asked: PullOptions = { policy: 'Always', ...options, ...(signal && { signal }) };
      const digest = await registry.digestOf(image, asked);
      const artifact = { reference: image, referenceDigest: digest };
      await verifySignatures(registry, artifact, { verification, trustRoot, trustRootHint }, asked);
      return { digest };
    },
  };
}

interface Wanted {
  readonly image: string;
  readonly verification: Verification;
}

/** @throws {RampartError} `INPUT`, `UNSUPPORTED` */
function wantedOf(input: JsonObject): Wanted {
  const [first = ''] = Object.keys(input);
  const isFirst = input['type'] === undefined;
  const kind = isFirst ? first : textIn(input, 'type');
  if (!kinds.includes(kind)) {
    throw new RampartError(errorCodes.INPUT, {
      what: `the verification ${JSON.stringify(kind)} is not supported`,
      next: `Use one of ${kinds.join(', ')}`,
    });
  }
  const fields = isFirst ? payloadObject(input[kind]) : input;
  const image = textIn(fields, 'image');
  if (kind === 'SigstoreCertificateVerify') {
    throw new RampartError(errorCodes.UNSUPPORTED, {
      what: `cannot verify the signatures of ${image}`,
      why: 'verification with a certificate is not supported',
      next: 'Use the public key of the certificate (SigstorePubKeyVerify) or the identity in it (SigstoreKeylessVerify)',
    });
  }
  const annotations = annotationsOf(fields['annotations'] ?? undefined);
  const allOf = requirementsOf(kind, fields).map((one) => ({ ...one, annotations }));
  // All of the keys must have signed the image, as in Kubewarden.
  return { image, verification: parseVerification({ apiVersion: 'v1', allOf }, 'the payload') };
}

/** The requirements, in the form of verification.yml. */
function requirementsOf(kind: string, fields: JsonObject): object[] {
  const list = (name: string): unknown[] => {
    const value = fields[name];
    if (Array.isArray(value)) return value;
    throw new Error(`the payload is malformed: ${name} must be a list`);
  };
  switch (kind) {
    case 'SigstorePubKeyVerify':
      return list('pub_keys').map((key) => ({ kind: 'pubKey', key }));
    case 'SigstoreGithubActionsVerify':
      return [{ kind: 'githubAction', owner: fields['owner'], repo: fields['repo'] }];
    case 'SigstoreKeylessVerify':
      return list('keyless').map((one) => {
        const { issuer, subject } = payloadObject(one);
        return { kind: 'genericIssuer', issuer, subject: { equal: subject } };
      });
    default:
      return list('keyless_prefix').map((one) => {
        const { issuer, url_prefix: urlPrefix } = payloadObject(one);
        return { kind: 'genericIssuer', issuer, subject: { urlPrefix } };
      });
  }
}

/** Annotations: a mapping, as the SDKs send them, or a list of `key` and `value`, as specified. */
function annotationsOf(value: unknown): unknown {
  if (!Array.isArray(value)) return value;
  return Object.fromEntries(
    value.map((one) => {
      const pair = payloadObject(one);
      return [textIn(pair, 'key'), pair['value']];
    }),
  );
}
