/** `rampart bpf verify`. */
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { printable } from '../../../lib/output/printable.ts';
import { tenantRules } from '../options.ts';
import { ProgramFailure } from '../kernel/failure.ts';
import { type VerifiedProgram, verifyBytecode } from '../kernel/load/verify-bytecode.ts';
import { requireRoot, stopSignal } from '../../../lib/cli/process.ts';
import { fileSubject, imageSubject, type Subject } from './bytecode-subject.ts';
import { attachTypes, type VerifyOptions } from './command.ts';
import type { BpfOptions } from './options.ts';
import { isPrinted, print } from './print.ts';

/** @returns the exit code: 0 if this kernel accepts all programs, 1 if it does not. */
export async function runVerify(what: string | undefined, options: VerifyOptions): Promise<number> {
  const { filename } = options;
  if ((what === undefined) === (filename === undefined)) {
    throw new RampartError(errorCodes.INPUT, {
      what: what === undefined ? 'there is nothing to verify' : `${what} together with -f ${filename}`,
      next: 'Name either an image or object file, or objects with -f',
    });
  }
  requireRoot(`cannot verify ${what ?? filename}`, 'only root may load eBPF programs');
  const { signal } = stopSignal();
  if (what === undefined) {
    const { runVerifyObjects } = await import('./verify-objects.ts');
    return await runVerifyObjects(filename ?? '', options, signal);
  }
  const subject = isFile(what) ? await fileSubject(what, options) : await imageSubject(what, options, signal);
  const { digest } = subject;
  const problems = 'untrusted' in subject ? [subject.untrusted] : [];
  const programs = 'untrusted' in subject ? [] : verified(what, subject, options);
  const reported = programs.map((program) => ({ ...program, type: program.type ?? null }));
  if (
    !isPrinted(options, 'rampart.dev/bpf-verify/v1', { subject: what, digest, problems, programs: reported })
  ) {
    process.stdout.write(`${printable(what)}\n${digest}\n\n`);
    for (const problem of problems) process.stdout.write(`refused: ${lines(problem)}\n`);
    if (programs.length > 0) printPrograms(programs, options);
  }
  return problems.length === 0 && programs.every(({ loads }) => loads) ? 0 : 1;
}

/** Makes each line of a text printable. */
export function lines(text: string): string {
  return text.split('\n').map(printable).join('\n');
}

/** Prints a table, and below it the reasons of refusals. */
export function printPrograms(programs: readonly VerifiedProgram[], options: BpfOptions): void {
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
    options,
  );
  for (const { functionName, loads, message } of programs) {
    if (loads) continue;
    process.stdout.write(`\n${printable(functionName)}: ${lines(message)}\n`);
  }
}

/** Verifies the programs of a file or image. A program's section decides its type; if it does not, the image's labels do, then `--type`. */
function verified(
  what: string,
  { bytes, types }: Subject,
  { function: only, type, namespaced, ...rules }: VerifyOptions,
): readonly VerifiedProgram[] {
  try {
    return verifyBytecode(bytes, {
      ...(only !== undefined && { functionName: only }),
      ...(namespaced && { tenants: tenantRules({ ...rules }) }),
      otherwise: (functionName) => attachTypes.find((name) => name === types?.[functionName]) ?? type,
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
