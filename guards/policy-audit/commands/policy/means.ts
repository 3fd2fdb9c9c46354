/** What the subcommands of `rampart policy` use: modules, settings, and a cluster if one is named. */
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';
import { createLogger } from '../../../../lib/telemetry/log.ts';
import type { OpenEvaluatorOptions } from '../../policies/open-evaluator.ts';
import type { Modules } from '../../modules/modules.ts';
import { openModules } from '../../modules/open-modules.ts';
import { parseYaml, readYaml } from '../../modules/yaml-file.ts';
import { pullSecretOf } from '../policy-server/credentials.ts';
import { moduleFiles } from '../policy-server/module-files.ts';
import { openPolicyHost } from '../policy-server/policy-host.ts';
import { stopSignal } from '../../../../lib/cli/process.ts';
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
    await openModules({ cacheDirectory: options.cache ?? defaultCache(), ...moduleFiles(options), logger }),
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

/** What `docker login` has written, if it has. */
function dockerConfig(): string | undefined {
  const { DOCKER_CONFIG = '' } = process.env;
  const file = join(DOCKER_CONFIG === '' ? join(homedir(), '.docker') : DOCKER_CONFIG, 'config.json');
  return existsSync(file) ? file : undefined;
}
