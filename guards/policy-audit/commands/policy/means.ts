/** Shared by the subcommands of `rampart policy`: modules, settings, and a cluster if one was named. */
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';
import type { KubeClient } from '../../../../lib/kube/client/client.ts';
import { createLogger } from '../../../../lib/telemetry/log.ts';
import type { OpenEvaluatorOptions } from '../../policies/open-evaluator.ts';
import type { Modules } from '../../modules/modules.ts';
import { openModules } from '../../modules/open-modules.ts';
import { parseYaml, readYaml } from '../../../../lib/files/yaml-file.ts';
import { accessOf, type World } from '../../engine/cel/cluster.ts';
import { clusterReader } from '../../policies/runtimes.ts';
import { ManifestObjects } from '../../tools/manifest-objects.ts';
import type { Subject } from '../../tools/subjects.ts';
import { pullSecretOf } from '../policy-server/credentials.ts';
import { moduleFiles } from '../policy-server/module-files.ts';
import { openPolicyHost } from '../policy-server/policy-host.ts';
import type { ClusterChoice } from '../../../../lib/cli/cluster-options.ts';
import { stopSignal } from '../../../../lib/cli/process.ts';
import type { ModuleOptions } from './command.ts';

export interface Means extends AsyncDisposable {
  readonly modules: Modules;
  readonly engine: OpenEvaluatorOptions & { readonly world: World; readonly hasCluster: boolean };
  /** Client of the cluster; undefined if no cluster is used. */
  readonly client: KubeClient | undefined;
  readonly signal: AbortSignal;
}

/**
 * @param given - Objects that policies read before they query the cluster.
 * @param named - The cluster that policies may query, by default that of kubectl. Undefined: no cluster is used.
 * @throws {RampartError} `INPUT`, `SYSTEM`
 */
export async function openMeans(
  options: ModuleOptions,
  given: readonly Subject[] = [],
  named?: ClusterChoice,
): Promise<Means> {
  const logger = createLogger({ level: 'warn' });
  const { signal } = stopSignal();
  await using opened = new AsyncDisposableStack();
  const modules = opened.use(
    await openModules({ cacheDirectory: options.cache ?? defaultCache(), ...moduleFiles(options), logger }),
  );
  const pullSecret = pullSecretOf(options.dockerConfigJsonPath ?? dockerConfig());
  const manifests = new ManifestObjects(given);
  const host = opened.use(
    await openPolicyHost({
      through: (cluster) => manifests.hostReader(cluster),
      cluster: named ?? {},
      isAsked: named !== undefined,
      mayBeAlone: false,
      modules,
      pullSecret,
      logger,
      signal,
    }),
  );
  // For ValidatingAdmissionPolicies and match conditions, which read as the API server does: with its permissions.
  const cluster = manifests.celReader(host.client && clusterReader(host.client));
  const expressions = host.hostCalls('', { contextAware: [] });
  const engine: Means['engine'] = {
    modules,
    hostCalls: (_, program) =>
      program === undefined ? expressions : host.hostCalls(program.module, program),
    cluster,
    world: { cluster, access: accessOf(expressions) },
    hasCluster: host.client !== undefined,
    pullSecret,
    signal,
  };
  const all = opened.move();
  return { modules, engine, client: host.client, signal, [Symbol.asyncDispose]: () => all.disposeAsync() };
}

/** The cluster of a command that uses one only if it is named. */
export function namedCluster({ kubeconfig, context }: ClusterChoice): ClusterChoice | undefined {
  return kubeconfig === undefined && context === undefined ? undefined : { kubeconfig, context };
}

/**
 * Value of `--policy-timeout`.
 *
 * @throws {RampartError} `INPUT`
 */
export function timeLimitOf(text: string): number {
  const deadlineMs = Number(text) * 1000;
  if (deadlineMs > 0 && deadlineMs <= 300_000) return deadlineMs;
  throw new RampartError(errorCodes.INPUT, { what: `--policy-timeout ${text} is not a time of up to 300 s` });
}

/** The value of `--settings`: a file, or JSON or YAML itself. */
export function settingsOf(text: string | undefined): Record<string, unknown> | undefined {
  if (text === undefined) return undefined;
  const value = existsSync(text)
    ? readYaml(text)
    : /[{:]/.test(text)
      ? parseYaml(text, '--settings')
      : readYaml(text);
  if (value === null || value === undefined) return {};
  if (typeof value === 'object' && !Array.isArray(value)) return value as Record<string, unknown>;
  throw new RampartError(errorCodes.INPUT, { what: `the settings in ${text} are not a mapping` });
}

function defaultCache(): string {
  const { XDG_CACHE_HOME = '' } = process.env;
  return join(XDG_CACHE_HOME === '' ? join(homedir(), '.cache') : XDG_CACHE_HOME, 'rampart', 'modules');
}

/** The configuration that `docker login` has written, if it exists. */
function dockerConfig(): string | undefined {
  const { DOCKER_CONFIG = '' } = process.env;
  const file = join(DOCKER_CONFIG === '' ? join(homedir(), '.docker') : DOCKER_CONFIG, 'config.json');
  return existsSync(file) ? file : undefined;
}
