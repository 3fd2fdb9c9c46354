/**
 * `rampart bpf verify`.
 *
 * @module
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

import { errorCodes, RampartError } from '../../shared/observe/errors.ts';
import { createLogger } from '../../shared/observe/log.ts';
import { printable } from '../../shared/observe/printable.ts';
import { readObjectFile } from '../../systems/bpf-programs/node/bytecode-file.ts';
import { openBytecodeRegistry } from '../../systems/bpf-programs/node/bytecode-registry.ts';
import { objectOf, programTypesOf } from '../../systems/bpf-programs/node/image-bytecode.ts';
import { verifyObject } from '../../systems/bpf-programs/inspect/verify.ts';
import { stopSignal } from '../process.ts';
import type { VerifyOptions } from './command.ts';
import { print, printJson } from './run.ts';

interface Subject {
  readonly digest: string;
  readonly bytes: Uint8Array;
  readonly types: Readonly<Record<string, string>>;
}

/** @returns the exit code: 0 when this kernel takes all, 1 when it does not. */
export async function runVerify(what: string, options: VerifyOptions): Promise<number> {
  if (process.geteuid?.() !== 0) {
    throw new RampartError(errorCodes.PRIVILEGE, {
      what: `cannot verify ${what}`,
      why: 'the kernel takes eBPF programs of root only',
      next: 'Run it as root, e.g. with sudo',
    });
  }
  const { digest, bytes, types } = isFile(what)
    ? { ...readObjectFile('/', resolve(what)), types: {} }
    : await pulled(what, options);
  const programs = verifyObject(bytes, what, types, options.function);
  if (programs.length === 0) {
    throw new RampartError(errorCodes.NOT_FOUND, {
      what: `${what} has no program${options.function === undefined ? '' : ` ${options.function}`}`,
    });
  }
  if (options.output === 'json') printJson({ subject: what, digest, programs });
  else {
    process.stdout.write(`${what}\n${digest}\n\n`);
    print(
      ['PROGRAM', 'TYPE', 'VERDICT', 'INSTRUCTIONS VERIFIED'],
      programs.map(({ functionName, type, ok, verifiedInstructions }) => ({
        cells: [
          printable(functionName),
          type ?? '-',
          ok ? { text: 'taken', style: 'green' } : { text: 'refused', style: 'red' },
          String(verifiedInstructions ?? '-'),
        ],
      })),
    );
    for (const { functionName, ok, log } of programs) {
      if (!ok)
        process.stdout.write(`\n${printable(functionName)}: ${log.split('\n').map(printable).join('\n')}\n`);
    }
  }
  return programs.every(({ ok }) => ok) ? 0 : 1;
}

function isFile(what: string): boolean {
  return what.startsWith('/') || what.startsWith('.') || what.endsWith('.o');
}

async function pulled(reference: string, { insecure }: VerifyOptions): Promise<Subject> {
  const stop = stopSignal();
  await using stack = new AsyncDisposableStack();
  const directory = mkdtempSync(join(tmpdir(), 'rampart-verify-'));
  stack.defer(() => rmSync(directory, { recursive: true, force: true }));
  const host = reference.split('/')[0] ?? '';
  const registry = stack.use(
    await openBytecodeRegistry(
      directory,
      { bpfInsecureRegistry: insecure === true ? [host] : [] },
      createLogger({ level: 'warn' }),
    ),
  );
  const given = { signal: stop.signal, policy: 'Always' } as const;
  const artifact = await registry.pull(reference, given);
  const bytes = await objectOf(registry, artifact, given);
  return { digest: artifact.digest, bytes, types: programTypesOf(artifact) ?? {} };
}
