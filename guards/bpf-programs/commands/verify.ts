/** `rampart bpf verify`. */
import { mkdtempDisposableSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { createLogger } from '../../../lib/telemetry/log.ts';
import { printable } from '../../../lib/output/printable.ts';
import { readObjectFile } from '../node/bytecode-file.ts';
import { openBytecodeRegistry } from '../node/bytecode-registry.ts';
import { objectOf, programTypesOf } from '../node/image-bytecode.ts';
import type { AttachType } from '../kernel/desired.ts';
import { ProgramFailure } from '../kernel/failure.ts';
import { type VerifiedProgram, verifyBytecode } from '../kernel/load/verify-bytecode.ts';
import { requireRoot, stopSignal } from '../../../lib/cli/process.ts';
import type { VerifyOptions } from './command.ts';
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
  const programs = verified(what, bytes, types, options.function);
  if (options.output === 'json') {
    const told = programs.map((program) => ({ ...program, type: program.type ?? null }));
    printJson({ subject: what, digest, programs: told });
  } else {
    process.stdout.write(`${printable(what)}\n${digest}\n\n`);
    print(
      ['PROGRAM', 'TYPE', 'VERDICT', 'INSTRUCTIONS VERIFIED'],
      programs.map(({ functionName, type, loads, verifiedInstructions, statistics }) => ({
        cells: [
          printable(functionName),
          type ?? '-',
          loads ? { text: 'taken', style: 'green' } : { text: 'refused', style: 'red' },
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

/** The type from the image takes precedence: a section need not determine it. */
function verified(
  what: string,
  bytes: Uint8Array,
  types: Subject['types'],
  only: string | undefined,
): readonly VerifiedProgram[] {
  try {
    const all = verifyBytecode(bytes, only === undefined ? {} : { functionName: only });
    return all.map((one) => {
      const { functionName } = one;
      const type = attachTypes.find((name) => name === types[functionName]);
      if (one.type !== undefined || type === undefined) return one;
      return verifyBytecode(bytes, { functionName, type })[0] ?? one;
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

const attachTypes: readonly AttachType[] = [
  ...(['fentry', 'fexit', 'kprobe', 'kretprobe', 'tc', 'tcx'] as const),
  ...(['tracepoint', 'uprobe', 'uretprobe', 'xdp'] as const),
];

function isFile(what: string): boolean {
  return what.startsWith('/') || what.startsWith('.') || what.endsWith('.o');
}

async function pulled(reference: string, { insecure, registries }: VerifyOptions): Promise<Subject> {
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
  const given = { signal: stop.signal, policy: 'Always' } as const;
  const artifact = await registry.pull(reference, given);
  const bytes = await objectOf(registry, artifact, given);
  return { digest: artifact.digest, bytes, types: programTypesOf(artifact) ?? {} };
}
