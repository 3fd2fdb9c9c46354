/** The certificates of policy servers, in Secrets. */
import { managedLabels } from '../../../guard/managed-by.ts';
import type { KubeClient } from '../../../lib/kube/client/client.ts';
import { orUndefined } from '../../../lib/kube/client/client-errors.ts';
import { type KubeObject, type Secret, secrets } from '../../../lib/kube/object/object.ts';
import type { KeyAndCertificate } from '../../../lib/x509/certificate.ts';
import { type Authority, currentAuthority, type Kept } from './server-certificates.ts';

export const fieldManager = 'rampart-policy-servers';
const authorityName = 'policy-server-root-ca';

export class StoredCertificates {
  readonly #client: KubeClient;
  readonly #namespace: string;

  constructor(client: KubeClient, namespace: string) {
    this.#client = client;
    this.#namespace = namespace;
  }

  /** The stored authority, or else a new one, which is stored. */
  async authority(now: Date, signal: AbortSignal): Promise<Authority> {
    const secret = await this.#secret(authorityName, signal);
    const text = (key: string): string | undefined => textOf(secret, key);
    const kept = { key: text('ca.key'), cert: text('ca.crt'), before: text('before.crt') };
    const authority = currentAuthority(kept, now);
    if (authority.cert !== kept.cert || authority.before !== kept.before) {
      const data = {
        'ca.key': authority.key,
        'ca.crt': authority.cert,
        ...(authority.before && { 'before.crt': authority.before }),
      };
      const labels = { 'app.kubernetes.io/part-of': 'kubewarden', ...managedLabels };
      const object: KubeObject = {
        apiVersion: 'v1',
        kind: 'Secret',
        metadata: { name: authorityName, namespace: this.#namespace, labels },
        ...{
          type: 'Opaque',
          data: Object.fromEntries(
            Object.entries(data).map(([key, pem]) => [key, Buffer.from(pem).toString('base64')]),
          ),
        },
      };
      await this.#client.apply(secrets, object, { fieldManager, force: true, signal });
    }
    return authority;
  }

  async certificate(name: string, signal: AbortSignal): Promise<Kept<KeyAndCertificate>> {
    const secret = await this.#secret(name, signal);
    return { key: textOf(secret, 'tls.key'), cert: textOf(secret, 'tls.crt') };
  }

  #secret(name: string, signal: AbortSignal): Promise<Secret | undefined> {
    const target = { name, namespace: this.#namespace };
    return orUndefined(this.#client.get(secrets, target, { signal }));
  }
}

function textOf(secret: Secret | undefined, key: string): string | undefined {
  const value = secret?.data?.[key];
  return value === undefined ? undefined : Buffer.from(value, 'base64').toString();
}
