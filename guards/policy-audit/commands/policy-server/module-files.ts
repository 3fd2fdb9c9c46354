/** The files that tell a command where modules come from and which signatures they need. */
import type { ModulesOptions } from '../../modules/open-modules.ts';
import { readSourcesFile } from '../../modules/sources.ts';
import { readTrustRootFile } from '../../../../lib/oci/signatures/trust-root.ts';
import { readVerificationFile } from '../../../../lib/oci/signatures/verification.ts';

export interface ModuleFilePaths {
  readonly sourcesPath?: string;
  readonly verificationPath?: string;
  readonly sigstoreTrustConfig?: string;
}

/** @throws {RampartError} `INPUT` */
export function moduleFiles(
  paths: ModuleFilePaths,
): Pick<ModulesOptions, 'sources' | 'trustRoot' | 'verification'> {
  const { sourcesPath, verificationPath, sigstoreTrustConfig } = paths;
  return {
    sources: sourcesPath === undefined ? undefined : readSourcesFile(sourcesPath),
    verification: verificationPath === undefined ? undefined : readVerificationFile(verificationPath),
    trustRoot: sigstoreTrustConfig === undefined ? undefined : readTrustRootFile(sigstoreTrustConfig),
  };
}
