/**
 * The key that baselines of a namespace are signed with: a Secret, read by its name when it is needed.
 *
 * @module
 */
import { createPrivateKey, createPublicKey } from 'node:crypto';
import type { KubeClient } from '../../../shared/kube/client.ts';
import { isForbidden, isNotFound } from '../../../shared/kube/client-errors.ts';
import { secrets } from '../../../shared/kube/object.ts';
import type { SigningKey } from '../database/signature.ts';

export const keySecretName = 'file-integrity-baseline-key';
/** 32 random bytes or more. */
export const hmacDataKey = 'hmac-sha256';
/** PKCS #8 in PEM. Goes before the other where both are there. */
export const ed25519DataKey = 'ed25519';

/**
 * The key, or why there is none that can be used, and what to do.
 *
 * @throws what the client throws, but for a Secret that is not there or not allowed
 */
export async function readSigningKey(
  client: Pick<KubeClient, 'get'>,
  namespace: string,
  signal: AbortSignal,
): Promise<SigningKey | string> {
  const name = `the Secret ${namespace}/${keySecretName}`;
  let data: Readonly<Record<string, string>>;
  try {
    ({ data = {} } = await client.get(secrets, { namespace, name: keySecretName }, { signal }));
  } catch (error) {
    if (isNotFound(error)) return `${name} is not there. The operator makes it; is it running?`;
    if (isForbidden(error))
      return `${name} must not be read: ${error.message}. The operator allows it; is it running?`;
    throw error;
  }
  const pem = data[ed25519DataKey];
  if (pem !== undefined) {
    try {
      const privateKey = createPrivateKey(Buffer.from(pem, 'base64'));
      if (privateKey.asymmetricKeyType === 'ed25519')
        return { scheme: 'ed25519', privateKey, publicKey: createPublicKey(privateKey) };
    } catch {
      // Said below.
    }
    return `${name} has no Ed25519 private key (PKCS #8, PEM) under ${ed25519DataKey}.`;
  }
  const secret = Buffer.from(data[hmacDataKey] ?? '', 'base64');
  if (secret.length >= 32) return { scheme: 'hmac-sha256', secret };
  return `${name} has ${secret.length} bytes under ${hmacDataKey}, and at least 32 are needed.`;
}
