/** The runtimes of policies in this process. */
import type { KubeClient } from '../../../lib/kube/client/client.ts';
import type { Namespace, ResourceType } from '../../../lib/kube/object/object.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import { accessOf, type ClusterReader } from '../engine/cel/cluster.ts';
import { everyCapability, HostCapabilities } from '../engine/host-calls/capabilities.ts';
import { policyHostCalls } from '../engine/host-calls/host-calls.ts';
import { imagesOf } from '../engine/host-calls/images.ts';
import { openEvaluator } from './open-evaluator.ts';
import { type PolicyReaders, ReadByServer } from './read-by-server.ts';
import { refuseFiles } from './refuse-files.ts';
import { verifierOf } from '../modules/image-signatures.ts';
import { termsName } from '../modules/lazy-modules.ts';
import type { Modules, ModuleTerms } from '../modules/modules.ts';
import { type ServerTerms, termsOfServer } from './policy-server-of.ts';
import type { AskedCluster } from './asked-cluster.ts';
import type { Runtimes } from './open-policy.ts';
import { orUndefined } from '../../../lib/kube/client/client-errors.ts';
import type { Evaluator, JsonObject } from '../engine/evaluator.ts';
import type { ClusterReader as HostReader } from '../engine/host-calls/cluster-reader.ts';
import { servedType } from '../engine/host-calls/kube-reader.ts';

interface RuntimesOptions {
  /** Returns the modules for a PolicyServer's policies, and for the images that these query from registries. */
  readonly modules: (terms: ModuleTerms) => Pick<Modules, 'fetch' | 'registry' | 'trustRoot'>;
  readonly client: KubeClient;
  readonly logger: Logger;
  /** Answers what modules request from the cluster. */
  readonly asked: AskedCluster;
  /** Readers for the policies of each PolicyServer. Default: this process reads for all policies. */
  readonly readers?: PolicyReaders | undefined;
  /** Returns a Namespace if it is known without a request. */
  readonly namespace?: (name: string) => Namespace | undefined;
}

export function runtimesOf(options: RuntimesOptions): Runtimes {
  const { modules, client, logger, asked, readers, namespace } = options;
  const cluster = clusterReader(client, namespace);
  // The match conditions of a webhook are evaluated not by its server, but by the API server, with that server's own permissions.
  const conditions = { policy: '', capabilities: everyCapability, resources: [], logger, cluster: asked };
  return {
    world: { cluster, access: accessOf(policyHostCalls(conditions)) },
    open: async ({ id, origin, policyServer, program }, signal, through) => {
      if (origin.namespace !== undefined) refuseFiles(program);
      const { capabilities, pullSecret, ...terms }: ServerTerms =
        program.type === 'expressions' ? {} : await termsOfServer(client, policyServer, signal);
      const own = modules(terms);
      const granted =
        origin.namespace === undefined || capabilities === undefined
          ? everyCapability
          : new HostCapabilities(capabilities);
      const fetch: Modules['fetch'] = (url, how) => own.fetch(url, how);
      const source = through?.({ fetch, terms: termsName(terms) }) ?? own;
      const credentials = pullSecret && { credentials: pullSecret };
      const images = imagesOf(() => own.registry(), credentials);
      const verifier = verifierOf(own, credentials);
      const openedFor = (reader: HostReader): Promise<Evaluator> =>
        openEvaluator(program, {
          modules: source,
          cluster,
          signal,
          pullSecret,
          hostCalls: (resources) =>
            policyHostCalls({
              policy: id,
              isTenant: origin.namespace !== undefined,
              capabilities: granted,
              resources,
              logger,
              cluster: reader,
              images,
              verifier,
            }),
        });
      // Policies of Kubernetes have no policy server: the API server reads for them.
      if (readers === undefined || program.type === 'expressions') return openedFor(asked);
      using stack = new DisposableStack();
      const opened = stack.use(readers.open(policyServer));
      const evaluator = new ReadByServer(await openedFor(asked.through(opened.reader)), opened);
      stack.move();
      return evaluator;
    },
  };
}

/** Limit of the remembered kinds. */
const MAX_KINDS = 1024;

/**
 * Reads for expressions, with the permissions of a client.
 *
 * @param namespace - Returns a Namespace if it is known without a request.
 */
export function clusterReader(
  client: KubeClient,
  namespace: (name: string) => Namespace | undefined = () => undefined,
): ClusterReader {
  const kinds = new Map<string, ResourceType>();
  const typeOf = async (apiVersion: string, kind: string, signal: AbortSignal): Promise<ResourceType> => {
    const key = `${apiVersion} ${kind}`;
    const known = kinds.get(key);
    if (known !== undefined) return known;
    const type = await servedType(client, { apiVersion, kind }, signal);
    if (type === undefined) throw new Error(`the API does not serve ${kind} of ${apiVersion}`);
    if (kinds.size >= MAX_KINDS) kinds.clear();
    kinds.set(key, type);
    return type;
  };
  const read = async (
    apiVersion: string,
    kind: string,
    within: string | undefined,
    name: string,
    signal: AbortSignal,
  ): Promise<JsonObject | undefined> => {
    const type = await typeOf(apiVersion, kind, signal);
    const where = type.namespaced && within !== undefined ? { namespace: within } : {};
    return (await orUndefined(client.get(type, { ...where, name }, { signal }))) as JsonObject | undefined;
  };
  return {
    get({ apiVersion, kind, namespace: within, name }, signal) {
      const known = apiVersion === 'v1' && kind === 'Namespace' ? namespace(name) : undefined;
      if (known !== undefined) return known as unknown as JsonObject;
      return read(apiVersion, kind, within, name, signal);
    },
    async list({ apiVersion, kind, namespace: within, labelSelector, fieldSelector }, signal) {
      const type = await typeOf(apiVersion, kind, signal);
      const where = type.namespaced && within !== undefined ? { namespace: within } : {};
      return (await client.list(type, where, {
        labelSelector,
        fieldSelector,
        signal,
      })) as unknown as JsonObject;
    },
  };
}
