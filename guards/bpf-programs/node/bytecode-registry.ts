/** The registries that bytecode images come from, as given on the command line. */
import { readFileSync } from 'node:fs';

import { errorCodes, messageOf, RampartError } from '../../../lib/errors/errors.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import { openRegistry } from '../../../lib/oci/open-registry.ts';
import { noRegistriesConf, parseRegistriesConf } from '../../../lib/oci/registries-conf.ts';
import type { Registry } from '../../../lib/oci/registry.ts';
import type { BpfProgramsOptions } from '../options.ts';
import { MAX_OBJECT_BYTES } from './bytecode-file.ts';

/** Limit of all cached images on a node, in bytes. */
const CACHE_BYTES = 256 << 20;

/** @throws {RampartError} `INPUT` for a registries.conf that cannot be read; errors of `openRegistry`. */
export async function openBytecodeRegistry(
  cacheDirectory: string,
  { bpfRegistries, bpfInsecureRegistry }: Pick<BpfProgramsOptions, 'bpfInsecureRegistry' | 'bpfRegistries'>,
  logger: Logger,
): Promise<Registry> {
  return await openRegistry({
    cacheDirectory,
    logger,
    registriesConf: bpfRegistries === undefined ? noRegistriesConf : readConf(bpfRegistries),
    insecureSources: bpfInsecureRegistry,
    limits: { layerBytes: MAX_OBJECT_BYTES, cacheBytes: CACHE_BYTES },
  });
}

function readConf(path: string): ReturnType<typeof parseRegistriesConf> {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (cause) {
    throw new RampartError(errorCodes.INPUT, {
      what: `cannot read ${path}`,
      why: messageOf(cause),
      next: 'Use an existing registries.conf',
      cause,
    });
  }
  return parseRegistriesConf(text, path);
}
