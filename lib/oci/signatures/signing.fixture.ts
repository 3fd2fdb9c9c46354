/** Signatures of artifacts in a registry, as cosign leaves them. */
import { type KeyObject, sign } from 'node:crypto';

import type { Pushed, RegistryFixture } from '../registry.fixture.ts';
import { type SignatureAnnotations, signatureAnnotation } from './sigstore.fixture.ts';

export interface Signing {
  /** A private key, or what signs in another way. */
  readonly by: KeyObject | ((payload: Uint8Array) => SignatureAnnotations);
  readonly optional?: object;
  /** Default: what is signed. */
  readonly digest?: string;
  readonly break?: boolean;
}

export async function signAs(
  server: RegistryFixture,
  pushed: Pushed,
  repository: string,
  signings: readonly Signing[],
): Promise<void> {
  await server.push(repository, `${pushed.digest.replace(':', '-')}.sig`, {
    layers: signings.map(({ by, optional = {}, digest = pushed.digest, break: broken = false }) => {
      const payload = Buffer.from(
        JSON.stringify({
          critical: {
            identity: { 'docker-reference': `${server.host}/${repository}` },
            image: { 'docker-manifest-digest': digest },
            type: 'cosign container image signature',
          },
          optional,
        }),
      );
      const mediaType = 'application/vnd.dev.cosign.simplesigning.v1+json';
      if (typeof by === 'function') return { mediaType, bytes: payload, annotations: by(payload) };
      const signature = sign(by.asymmetricKeyType === 'ed25519' ? null : 'sha256', payload, by);
      if (broken) signature[10] = (signature[10] ?? 0) ^ 1;
      return {
        mediaType,
        bytes: payload,
        annotations: { [signatureAnnotation]: signature.toString('base64') },
      };
    }),
  });
}
