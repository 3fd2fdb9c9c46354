/**
 * What runs policies of this process.
 *
 * @module
 */
import type { KubeClient } from '../../../shared/kube/client.ts';
import type { Namespace } from '../../../shared/kube/object.ts';
import type { Logger } from '../../../shared/observe/log.ts';
import { everyCapability, HostCapabilities } from '../engine/host-calls/capabilities.ts';
import { policyHostCalls } from '../engine/host-calls/host-calls.ts';
import { openEvaluator, type OpenEvaluatorOptions } from '../engine/open-evaluator.ts';
import { clusterReader } from './cluster-reader.ts';
import type { AskedCluster } from './asked-cluster.ts';
import type { Runtimes } from './open-policy.ts';

export interface RuntimesOptions extends Pick<OpenEvaluatorOptions, 'modules'> {
  readonly client: KubeClient;
  readonly logger: Logger;
  /** What modules read of the cluster. */
  readonly asked: AskedCluster;
  /** A Namespace, where it is known without asking. */
  readonly namespace?: (name: string) => Namespace | undefined;
  /** `namespacedPoliciesCapabilities` of a PolicyServer; undefined: all. */
  readonly capabilities?: (policyServer: string) => readonly string[] | undefined;
}

export function runtimesOf({
  modules,
  client,
  logger,
  asked,
  namespace,
  capabilities = () => undefined,
}: RuntimesOptions): Runtimes {
  const cluster = clusterReader(client, namespace);
  return {
    cluster,
    open: async ({ id, origin, policyServer, program }, signal) => {
      const patterns = origin.namespace === undefined ? undefined : capabilities(policyServer);
      const granted = patterns === undefined ? everyCapability : new HostCapabilities(patterns);
      return openEvaluator(program, {
        modules,
        cluster,
        signal,
        hostCalls: (resources) =>
          policyHostCalls({ policy: id, capabilities: granted, resources, logger, cluster: asked }),
      });
    },
  };
}
