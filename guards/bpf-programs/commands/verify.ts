/** `rampart bpf verify`. */
import { mkdtempDisposableSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

import { errorCodes, messageOf, RampartError } from '../../../lib/errors/errors.ts';
import { credentialsOfDockerConfig } from '../../../lib/oci/pull-secrets.ts';
import type { CredentialsSource, PullOptions } from '../../../lib/oci/registry.ts';
import { createLogger } from '../../../lib/telemetry/log.ts';
import { printable } from '../../../lib/output/printable.ts';
import { readObjectFile } from '../node/bytecode-file.ts';
import { openBytecodeRegistry } from '../node/bytecode-registry.ts';
import { objectOf, programTypesOf } from '../node/image-bytecode.ts';
import { tenantRules } from '../options.ts';
import { ProgramFailure } from '../kernel/failure.ts';
import { type VerifiedProgram, verifyBytecode } from '../kernel/load/verify-bytecode.ts';
import { requireRoot, stopSignal } from '../../../lib/cli/process.ts';
import { attachTypes, type VerifyOptions } from './command.ts';
import { print, printJson } from './print.ts';

interface Subject {
  readonly digest: string;
  readonly bytes: Uint8Array;
  readonly types: Readonly<Record<string, string>>;
}

/** @returns the exit code: 0 if this kernel accepts all, 1 if it does not. */
export async function runVerify(what: string, options: VerifyOptions): Promise<number> {
  requireRoot(`cannot verify ${what}`, 'only root may load eBPF programs');
  const { digest, bytes, types } = isFile(what)
    ? { ...readObjectFile('/', resolve(what)), types: {} }
    : await pulled(what, options);
  const programs = verified(what, bytes, types, options);
  if (options.output === 'json') {
    const told = programs.map((program) => ({ ...program, type: program.type ?? null }));
    printJson({ schema: 'rampart.dev/bpf-verify/v1', subject: what, digest, programs: told });
  } else {
    process.stdout.write(`${printable(what)}\n${digest}\n\n`);
    print(
      ['PROGRAM', 'TYPE', 'VERDICT', 'INSTRUCTIONS VERIFIED'],
      programs.map(({ functionName, type, loads, verifiedInstructions, statistics }) => ({
        cells: [
          printable(functionName),
          type ?? '-',
          loads ? { text: 'accepted', style: 'green' } : { text: 'refused', style: 'red' },
          loads ? String(verifiedInstructions) : '-',
        ],
        note: loads ? printable(statistics) : undefined,
      })),
    );
    for (const { functionName, loads, message } of programs) {
      if (loads) continue;
      process.stdout.write(
        `\n${printable(functionName)}: ${message.split('\n').map(printable).join('\n')}\n`,
      );
    }
  }
  return programs.every(({ loads }) => loads) ? 0 : 1;
}

function verified(
  what: string,
  bytes: Uint8Array,
  types: Subject['types'],
  { function: only, type, namespaced, ...rules }: VerifyOptions,
): readonly VerifiedProgram[] {
  try {
    return verifyBytecode(bytes, {
      ...(only !== undefined && { functionName: only }),
      ...(namespaced && { tenants: tenantRules({ ...rules }) }),
      otherwise: (functionName) => attachTypes.find((name) => name === types[functionName]) ?? type,
    });
  } catch (error) {
    if (!(error instanceof ProgramFailure)) throw error;
    throw new RampartError(errorCodes.INPUT, {
      what: `cannot verify ${what}`,
      why: error.message,
      cause: error,
    });
  }
}

function isFile(what: string): boolean {
  return what.startsWith('/') || what.startsWith('.') || what.endsWith('.o');
}

async function pulled(
  reference: string,
  { insecure, registries, credentials }: VerifyOptions,
): Promise<Subject> {
  const stop = stopSignal();
  await using stack = new AsyncDisposableStack();
  const { path: directory } = stack.use(mkdtempDisposableSync(join(tmpdir(), 'rampart-verify-')));
  const host = reference.split('/')[0] ?? '';
  const registry = stack.use(
    await openBytecodeRegistry(
      directory,
      {
        bpfInsecureRegistry: insecure === true ? [host] : [],
        bpfRegistries: registries,
      },
      createLogger({ level: 'warn' }),
    ),
  );
  const given: PullOptions = {
    ...{ signal: stop.signal, policy: 'Always' as const },
    ...(credentials !== undefined && { credentials: readCredentials(credentials) }),
  };
  const artifact = await registry.pull(reference, given);
  const bytes = await objectOf(registry, artifact, given);
  return { digest: artifact.digest, bytes, types: programTypesOf(artifact) ?? {} };
}

/** @throws {RampartError} `INPUT` */
function readCredentials(path: string): CredentialsSource {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    throw new RampartError(errorCodes.INPUT, {
      what: `cannot read ${path}`,
      why: messageOf(error),
      next: 'Use the config.json that `docker login` or `podman login --authfile` writes',
      cause: error,
    });
  }
  return credentialsOfDockerConfig(text, path);
}
