/** What the policies of a policy server may query: the cluster, registries, DNS. */
import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';
import type { Logger } from '../../../../lib/telemetry/log.ts';
import type { CredentialsSource } from '../../../../lib/oci/registry.ts';
import { KubeClient } from '../../../../lib/kube/client/client.ts';
import type { HostCalls } from '../../engine/evaluator.ts';
import { everyCapability, HostCapabilities } from '../../engine/host-calls/capabilities.ts';
import { policyHostCalls } from '../../engine/host-calls/host-calls.ts';
import { imagesOf } from '../../engine/host-calls/images.ts';
import type { ClusterReader } from '../../engine/host-calls/cluster-reader.ts';
import { KubeClusterReader } from '../../engine/host-calls/kube-reader.ts';
import type { ModuleProgram } from '../../engine/program.ts';
import { isNamespacedId } from '../../policies/read-policy.ts';
import { verifierOf } from '../../modules/image-signatures.ts';
import type { Modules } from '../../modules/modules.ts';
import type { ClusterChoice } from '../../../../lib/cli/cluster-options.ts';
import { clusterAccess } from '../../../../lib/cli/cluster.ts';

interface PolicyHostOptions {
  /** The cluster that policies may query. */
  readonly cluster: ClusterChoice;
  /** Whether policies may query a cluster at all. */
  readonly isAsked: boolean;
  /** Whether the server may run without a cluster. */
  readonly mayBeAlone: boolean;
  /** Used by policies that query registries. */
  readonly modules: Pick<Modules, 'registry' | 'trustRoot'>;
  readonly pullSecret: CredentialsSource | undefined;
  /** Returns the reader for policies; it is passed the cluster, if there is one. Default: the cluster. */
  readonly through?: (cluster: ClusterReader | undefined) => ClusterReader;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

interface PolicyHost extends AsyncDisposable {
  /** Client of the cluster; undefined without a cluster. */
  readonly client: KubeClient | undefined;
  hostCalls(
    this: void,
    policyId: string,
    program: Pick<ModuleProgram, 'contextAware' | 'hostCapabilities'>,
  ): HostCalls;
}

/** @throws {RampartError} `API_UNREACHABLE`, `INPUT` if there is no cluster, unless that is allowed */
export async function openPolicyHost(options: PolicyHostOptions): Promise<PolicyHost> {
  const { logger, modules, pullSecret, through } = options;
  const client = options.isAsked ? await clientOf(options) : undefined;
  const own = client && new KubeClusterReader(client);
  const cluster = through === undefined ? own : through(own);
  const credentials = pullSecret && { credentials: pullSecret };
  const images = imagesOf(() => modules.registry(), credentials);
  const verifier = verifierOf(modules, credentials);
  return {
    client,
    hostCalls: (policy, { contextAware, hostCapabilities }) =>
      policyHostCalls({
        policy,
        isTenant: isNamespacedId(policy),
        capabilities:
          hostCapabilities === undefined ? everyCapability : new HostCapabilities(hostCapabilities),
        resources: contextAware,
        logger,
        cluster,
        images,
        verifier,
      }),
    async [Symbol.asyncDispose]() {
      client?.[Symbol.dispose]();
    },
  };
}

async function clientOf({
  cluster,
  mayBeAlone,
  logger,
  signal,
}: PolicyHostOptions): Promise<KubeClient | undefined> {
  let client: KubeClient | undefined;
  try {
    client = new KubeClient(clusterAccess(cluster));
    await client.getPath('/version', { signal });
    return client;
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof RampartError)) throw error;
    if (!mayBeAlone) {
      client?.[Symbol.dispose]();
      throw new RampartError(error.code === errorCodes.INPUT ? error.code : errorCodes.API_UNREACHABLE, {
        what: error.message,
        next: 'To serve policies that need no cluster, use --ignore-kubernetes-connection-failure',
        cause: error,
      });
    }
    logger.warn({ err: error }, 'no Kubernetes API: policies that query it will fail');
    // The API may become available later, and is then queried.
    return client;
  }
}
