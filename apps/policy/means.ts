/** What the subcommands of `rampart policy` use: modules, settings, and a cluster if one is named. */
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

import { errorCodes, RampartError } from '../../shared/observe/errors.ts';
import { createLogger } from '../../shared/observe/log.ts';
import type { OpenEvaluatorOptions } from '../../systems/policy-audit/engine/open-evaluator.ts';
import type { Modules } from '../../systems/policy-audit/modules/modules.ts';
import { openModules } from '../../systems/policy-audit/modules/open-modules.ts';
import { readSourcesFile } from '../../systems/policy-audit/modules/sources.ts';
import { readTrustRootFile } from '../../systems/policy-audit/modules/trust-root.ts';
import { readVerificationFile } from '../../systems/policy-audit/modules/verification.ts';
import { parseYaml, readYaml } from '../../systems/policy-audit/modules/yaml-file.ts';
import { pullSecretOf } from '../policy-server/credentials.ts';
import { openPolicyHost } from '../policy-server/policy-host.ts';
import { stopSignal } from '../process.ts';
import type { ModuleOptions } from './command.ts';

export interface Means extends AsyncDisposable {
  readonly modules: Modules;
  readonly engine: OpenEvaluatorOptions;
  readonly signal: AbortSignal;
}

/** @throws {RampartError} `INPUT`, `SYSTEM` */
export async function openMeans(options: ModuleOptions, kubeconfig?: string): Promise<Means> {
  const logger = createLogger({ level: 'warn' });
  const { signal } = stopSignal();
  await using opened = new AsyncDisposableStack();
  const modules = opened.use(
    await openModules({
      cacheDirectory: options.cache ?? defaultCache(),
      ...(options.sourcesPath !== undefined && { sources: readSourcesFile(options.sourcesPath) }),
      ...(options.verificationPath !== undefined && {
        verification: readVerificationFile(options.verificationPath),
      }),
      ...(options.sigstoreTrustConfig !== undefined && {
        trustRoot: readTrustRootFile(options.sigstoreTrustConfig),
      }),
      logger,
    }),
  );
  const pullSecret = pullSecretOf(options.dockerConfigJsonPath ?? dockerConfig());
  const host = opened.use(
    await openPolicyHost({
      kubeconfig,
      isAsked: kubeconfig !== undefined,
      mayBeAlone: false,
      modules,
      pullSecret,
      logger,
      signal,
    }),
  );
  const engine: OpenEvaluatorOptions = {
    modules,
    hostCalls: (_, program) =>
      program === undefined
        ? {
            call: () => Promise.reject(new Error('there is no cluster to query: name one with --kubeconfig')),
          }
        : host.hostCalls(program.module, program),
    pullSecret,
    signal,
  };
  const all = opened.move();
  return { modules, engine, signal, [Symbol.asyncDispose]: () => all.disposeAsync() };
}

/** Of `--settings`: a file, or JSON or YAML itself. */
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

/** What `docker login` wrote, where it did. */
function dockerConfig(): string | undefined {
  const { DOCKER_CONFIG = '' } = process.env;
  const file = join(DOCKER_CONFIG === '' ? join(homedir(), '.docker') : DOCKER_CONFIG, 'config.json');
  return existsSync(file) ? file : undefined;
}
