/**
 * What runs policies of this process.
 *
 * @module
 */
import type { KubeClient } from '../../../shared/kube/client.ts';
import type { Namespace } from '../../../shared/kube/object.ts';
import { errorCodes, RampartError } from '../../../shared/observe/errors.ts';
import type { Logger } from '../../../shared/observe/log.ts';
import { everyCapability, HostCapabilities } from '../engine/host-calls/capabilities.ts';
import { policyHostCalls } from '../engine/host-calls/host-calls.ts';
import { openEvaluator, type OpenEvaluatorOptions } from '../engine/open-evaluator.ts';
import type { PolicyProgram } from '../engine/program.ts';
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
      if (origin.namespace !== undefined) refuseFiles(program);
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

/** Whoever writes policies of a namespace may not read the files of this process. */
function refuseFiles(program: PolicyProgram): void {
  const modules =
    program.type === 'module' ? [program] : program.type === 'group' ? [...program.members.values()] : [];
  const file = modules.find(({ module }) => /^file:/i.test(module.trim()));
  if (file === undefined) return;
  throw new RampartError(errorCodes.INPUT, {
    what: `cannot take ${file.module}`,
    why: 'policies of a namespace may not read files of the process that runs them',
    next: 'Give a module of a registry, or make it a ClusterAdmissionPolicy.',
  });
}
