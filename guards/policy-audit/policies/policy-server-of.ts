/** A PolicyServer's settings for its policies, read when a policy is opened. */
import type { KubeClient } from '../../../lib/kube/client/client.ts';
import { orUndefined } from '../../../lib/kube/client/client-errors.ts';
import { systemNamespace } from '../../../guard/guard.ts';
import {
  type ConfigMap,
  configMaps,
  type KubeObject,
  type ResourceType,
  type Secret,
  secrets,
} from '../../../lib/kube/object/object.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { credentialsOfSecrets } from '../../../lib/oci/pull-secrets.ts';
import type { CredentialsSource } from '../../../lib/oci/registry.ts';
import { type PolicyServer, policyServerType } from '../api.ts';
import type { ModuleTerms } from '../modules/modules.ts';
import { parseSources, sourcesDocument } from '../modules/sources.ts';
import { parseTrustRoot, type TrustRoot } from '../../../lib/oci/signatures/trust-root.ts';
import { parseVerification, type Verification } from '../../../lib/oci/signatures/verification.ts';
import { parseYaml } from '../../../lib/files/yaml-file.ts';

/** The `insecureSources` and `sourceAuthorities` of a PolicyServer, and the contents of its ConfigMaps. */
export interface ServerTerms extends ModuleTerms {
  /** `namespacedPoliciesCapabilities`. Undefined: all. */
  readonly capabilities?: readonly string[] | undefined;
  /** Credentials from `imagePullSecret`, a Secret in the servers' namespace. */
  readonly pullSecret?: CredentialsSource;
}

/**
 * Without this PolicyServer there are no settings: on a single machine, it need not be created.
 *
 * @throws {RampartError} `NOT_FOUND` if its Secret or ConfigMap does not exist, `INPUT` if one of them is
 * unusable; errors of the client.
 */
export async function termsOfServer(
  client: KubeClient,
  name: string,
  signal: AbortSignal,
): Promise<ServerTerms> {
  const server = await orUndefined(client.get<PolicyServer>(policyServerType, { name }, { signal }));
  if (server === undefined) return {};
  const {
    namespacedPoliciesCapabilities: capabilities,
    imagePullSecret = '',
    verificationConfig = '',
    sigstoreTrustConfig = '',
  } = server.spec;
  const { insecureSources = [], sourceAuthorities = {} } = server.spec;
  const hasSources = insecureSources.length > 0 || Object.keys(sourceAuthorities).length > 0;
  const beside = async <T extends KubeObject>(
    type: ResourceType<T>,
    field: string,
    what: string,
  ): Promise<T> => {
    const target = { name: what, namespace: systemNamespace };
    const object = await orUndefined(client.get<T>(type, target, { signal }));
    if (object !== undefined) return object;
    throw new RampartError(errorCodes.NOT_FOUND, {
      what: `the PolicyServer ${name} cannot be used`,
      why: `its ${field} ${what} is not in the namespace ${systemNamespace}`,
      next: `Create this ${type.kind} there, or name another`,
    });
  };
  return {
    capabilities,
    ...(hasSources && { sources: parseSources(sourcesDocument(server.spec), `the PolicyServer ${name}`) }),
    ...(verificationConfig !== '' && {
      verification: verificationOf(await beside(configMaps, 'verificationConfig', verificationConfig)),
    }),
    ...(sigstoreTrustConfig !== '' && {
      trustRoot: trustRootOf(await beside(configMaps, 'sigstoreTrustConfig', sigstoreTrustConfig)),
    }),
    ...(imagePullSecret !== '' && {
      pullSecret: credentialsOfSecrets([
        {
          name: `${systemNamespace}/${imagePullSecret}`,
          secret: await beside<Secret>(secrets, 'imagePullSecret', imagePullSecret),
        },
      ]),
    }),
  };
}

function verificationOf({ metadata, data = {} }: ConfigMap): Verification {
  const what = `verification-config of the ConfigMap ${metadata.name}`;
  return parseVerification(parseYaml(data['verification-config'] ?? '', what), what);
}

function trustRootOf({ metadata, data = {} }: ConfigMap): TrustRoot {
  const what = `sigstore-trust-config of the ConfigMap ${metadata.name}`;
  return parseTrustRoot(parseYaml(data['sigstore-trust-config'] ?? '', what), what);
}
