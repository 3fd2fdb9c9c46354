/** The modules of a process that opens the policies of a cluster, with settings from files and from PolicyServers. */
import { join } from 'node:path';

import type { Logger } from '../../../lib/telemetry/log.ts';
import { ModulesByTerms } from './lazy-modules.ts';
import { openModules } from './open-modules.ts';
import { joined, noSources, readSourcesFile } from './sources.ts';
import { readTrustRootFile } from '../../../lib/oci/signatures/trust-root.ts';
import { readVerificationFile } from '../../../lib/oci/signatures/verification.ts';

/** Paths of files. A PolicyServer's own settings are added to the sources, and replace the other two. */
export interface ModuleFiles {
  readonly policySources?: string | undefined;
  readonly policyVerification?: string | undefined;
  readonly sigstoreTrustConfig?: string | undefined;
}

/** @param directory - Returns where modules are kept. Called when the first module is fetched; the files are read then, too. */
export function processModules(
  { policySources, policyVerification, sigstoreTrustConfig }: ModuleFiles,
  directory: () => string,
  logger: Logger,
): ModulesByTerms {
  return new ModulesByTerms(async ({ sources = noSources, verification, trustRoot }, part) => {
    const own = policySources === undefined ? noSources : readSourcesFile(policySources);
    return openModules({
      cacheDirectory: join(directory(), part),
      sources: joined(own, sources),
      verification:
        verification ??
        (policyVerification === undefined ? undefined : readVerificationFile(policyVerification)),
      trustRoot:
        trustRoot ?? (sigstoreTrustConfig === undefined ? undefined : readTrustRootFile(sigstoreTrustConfig)),
      logger,
    });
  });
}
