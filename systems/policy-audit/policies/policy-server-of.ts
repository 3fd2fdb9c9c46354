/**
 * What a PolicyServer says of those that it serves, read when a policy is opened.
 *
 * @module
 */
import type { KubeClient } from '../../../shared/kube/client.ts';
import { isNotFound } from '../../../shared/kube/client-errors.ts';
import { systemNamespace } from '../../../shared/guard/guard.ts';
import { type Secret, secrets } from '../../../shared/kube/object.ts';
import { errorCodes, RampartError } from '../../../shared/observe/errors.ts';
import { credentialsOfSecrets } from '../../../shared/oci/pull-secrets.ts';
import type { CredentialsSource } from '../../../shared/oci/registry.ts';
import { type PolicyServer, policyServerType } from '../api.ts';

export interface ServerTerms {
  /** `namespacedPoliciesCapabilities`. Undefined: all. */
  readonly capabilities?: readonly string[] | undefined;
  /** Of `imagePullSecret`, a Secret beside the servers. */
  readonly pullSecret?: CredentialsSource;
}

/**
 * Without such a server there are no terms: on one machine nobody has to make one.
 *
 * @throws {RampartError} `NOT_FOUND` where its Secret is not there, `INPUT` where that is no pull secret; as the client.
 */
export async function termsOfServer(
  client: KubeClient,
  name: string,
  signal: AbortSignal,
): Promise<ServerTerms> {
  const server = await found(client.get<PolicyServer>(policyServerType, { name }, { signal }));
  if (server === undefined) return {};
  const { namespacedPoliciesCapabilities: capabilities, imagePullSecret = '' } = server.spec;
  if (imagePullSecret === '') return { capabilities };
  const target = { name: imagePullSecret, namespace: systemNamespace };
  const secret = await found(client.get<Secret>(secrets, target, { signal }));
  if (secret === undefined) {
    throw new RampartError(errorCodes.NOT_FOUND, {
      what: `the PolicyServer ${name} has no credentials for registries`,
      why: `its imagePullSecret ${imagePullSecret} is not in the namespace ${systemNamespace}`,
      next: `Create it: kubectl create secret docker-registry ${imagePullSecret} -n ${systemNamespace} ...`,
    });
  }
  const pullSecret = credentialsOfSecrets([{ name: `${systemNamespace}/${imagePullSecret}`, secret }]);
  return { capabilities, pullSecret };
}

async function found<T>(read: Promise<T>): Promise<T | undefined> {
  try {
    return await read;
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}
