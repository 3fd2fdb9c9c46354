/** Runs `rampart policy inspect` and `rampart policy pull`. */
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';

import { errorCodes, fileError, RampartError } from '../../../../lib/errors/errors.ts';
import { printDocument } from '../../../../lib/cli/document.ts';
import { outputOptions } from '../../../../lib/cli/output.ts';
import { printable } from '../../../../lib/output/printable.ts';
import { renderTable } from '../../../../lib/output/table.ts';
import { inspectPolicy } from '../../engine/wasm/metadata.ts';
import type { FetchedModule } from '../../modules/modules.ts';
import type { InspectOptions, ModuleOptions, PullOptions } from './command.ts';
import { openMeans } from './means.ts';

export async function runPolicyInspect(name: string, options: InspectOptions): Promise<void> {
  const { bytes, digest, manifestDigest } = await fetched(name, options);
  const { runtime, metadata, imports, exports } = inspectPolicy(bytes);
  if (options.output === 'json' || options.output === 'yaml') {
    const sizeBytes = bytes.length;
    const all = { module: name, digest, manifestDigest, sizeBytes, runtime, metadata, imports, exports };
    printDocument(options.output, 'rampart.dev/policy-inspect/v1', all);
    return;
  }
  const { annotations = {}, rules = [], contextAwareResources = [], mutating, policyType } = metadata ?? {};
  const rows: [string, string][] = [
    ['module', name],
    ['digest', digest],
    ...(manifestDigest === undefined ? [] : [['manifest', manifestDigest] as [string, string]]),
    ['size', `${bytes.length} bytes`],
    ['runtime', runtime],
    ...(metadata === undefined
      ? [['metadata', 'none: the runtime is derived from imports and exports'] as [string, string]]
      : ([
          ['policy type', policyType ?? ''],
          ['mutating', mutating === true ? 'yes' : 'no'],
          ['background audit', metadata.backgroundAudit ? 'yes' : 'no'],
        ] as [string, string][])),
    ...contextAwareResources.map(({ apiVersion, kind }): [string, string] => [
      'reads',
      `${apiVersion} ${kind}`,
    ]),
    ...rules.map((rule): [string, string] => ['rule', JSON.stringify(rule)]),
    ...Object.entries(annotations).map(([key, value]): [string, string] => [key, value]),
    ['imports', imports.join(', ') || 'nothing'],
  ];
  process.stdout.write(
    `${renderTable(
      rows.map(([key, value]) => ({ cells: [key, printable(value)] })),
      outputOptions(100, { isWide: options.output === 'wide' }),
    ).trimEnd()}\n`,
  );
}

export async function runPolicyPull(name: string, options: PullOptions): Promise<void> {
  const { bytes, digest, manifestDigest, stale } = await fetched(name, options);
  if (options.outputPath !== undefined) {
    try {
      await writeFile(options.outputPath, bytes);
    } catch (error) {
      throw fileError(`cannot write ${options.outputPath}`, error);
    }
  }
  if (stale !== undefined) process.stderr.write(`rampart: using the cached module: ${printable(stale)}\n`);
  process.stdout.write(
    `${digest}  ${printable(name)}${manifestDigest === undefined ? '' : `@${manifestDigest}`}\n`,
  );
}

async function fetched(name: string, options: ModuleOptions): Promise<FetchedModule> {
  const isPath = !/^[a-z]+:\/\//.test(name) && existsSync(name);
  if (!isPath && /^\.{0,2}\/|^[^/]+\.wasm$/.test(name))
    throw new RampartError(errorCodes.INPUT, { what: `cannot read ${name}`, why: 'it does not exist' });
  await using means = await openMeans(options);
  const { pullSecret } = means.engine;
  // Awaited here, because the fetcher is closed when this function returns.
  return await means.modules.fetch(isPath ? `file://${encodeURI(resolve(name))}` : name, {
    pullSecret,
    signal: means.signal,
  });
}
