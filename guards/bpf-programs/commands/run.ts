/** `rampart bpf list`, `chain` and `cleanup`. */
import { createLogger } from '../../../lib/telemetry/log.ts';
import { printable } from '../../../lib/output/printable.ts';
import type { RefusedVersion } from '../kernel/desired.ts';
import { type ChainView, readChain } from '../kernel/running/chains.ts';
import { readPrograms } from '../kernel/running/programs.ts';
import { openLockedHost } from '../node/locked-host.ts';
import type { BpfOptions } from './options.ts';
import { isPrinted, noPrograms, place, print, tableText } from './print.ts';

export function runList(options: BpfOptions): void {
  const programs = readPrograms(place(options));
  if (isPrinted(options, 'rampart.dev/bpf-list/v1', { programs })) return;
  if (programs.length === 0) {
    process.stdout.write(noPrograms);
    return;
  }
  const shown = options.output === 'wide' ? (digest: string): string => digest : shortDigest;
  const inPods = programs.some(({ pod }) => pod !== undefined);
  print(
    [
      'ID',
      'TYPE',
      'FUNCTION',
      'ATTACHED TO',
      ...(inPods ? ['POD', 'CONTAINER'] : []),
      'REQUESTED BY',
      'BYTECODE',
    ],
    programs.map(
      ({ programId, type, functionName, attachPoint, pod, container, owner, source, digest, refused }) => ({
        cells: [
          ...[String(programId), type, functionName, attachPoint],
          ...(inPods ? [pod ?? '-', container ?? '-'] : []),
          ...[owner, versionText(source, shown(digest))],
        ].map(printable),
        note: refused && printable(refusedText(refused, shown)),
      }),
    ),
    options,
  );
}

/** @returns the exit code: 1 if nothing runs there. */
export function runChain(name: string | undefined, options: BpfOptions): number {
  const chains = readChain(place(options), name);
  if (isPrinted(options, 'rampart.dev/bpf-chain/v1', { chains })) return chains.length === 0 ? 1 : 0;
  if (chains.length === 0) {
    process.stdout.write(
      `No XDP, TC or TCX program of Rampart runs on ${printable(name ?? 'any interface')}.\n`,
    );
  } else process.stdout.write(`${chains.map((chain) => chainText(chain, options)).join('\n\n')}\n`);
  return chains.length === 0 ? 1 : 0;
}

function chainText(chain: ChainView, options: BpfOptions): string {
  const { interface: name, container, pod, kind, direction, programId, members, notes } = chain;
  const namespace = container === undefined ? '' : ` of network namespace ${container}`;
  const where = pod === undefined ? namespace : ` of pod ${pod}`;
  const hook = direction === undefined ? kind : `${kind} ${direction}`;
  const table = tableText(
    ['PRIORITY', 'REQUESTED BY', 'FUNCTION', 'ID', 'PROCEEDS ON', 'RUNS'],
    members.map(({ priority, owner, functionName, programId: id, proceedOn, runs, notes: own }) => ({
      cells: [
        ...[String(priority ?? '-'), owner ?? "(not Rampart's)", functionName, String(id)],
        ...[proceedOn.join(' ') || '-', String(runs ?? '-')],
      ].map(printable),
      note: own.length === 0 ? undefined : own.map(printable).join('; '),
    })),
    options,
  );
  const title = [`${name}${where}`, hook, ...(programId === undefined ? [] : [`program ${programId}`])];
  return [printable(title.join(', ')), table, ...notes.map(printable)].join('\n');
}

/** @throws {RampartError} `IN_USE` while an agent holds the programs. */
export async function runCleanup(options: BpfOptions): Promise<void> {
  place(options);
  await using host = await openLockedHost(
    { bpffs: options.bpffs, stateDirectory: options.bpfState, hostRoot: '/' },
    createLogger({ level: 'warn' }),
  );
  const removed = await host.remove();
  if (isPrinted(options, 'rampart.dev/bpf-cleanup/v1', { removed })) return;
  if (removed.length === 0) process.stdout.write('Nothing to remove.\n');
  else process.stdout.write(`${removed.map((line) => `removed ${printable(line)}`).join('\n')}\n`);
}

/** The refused version, and the reason as in the object's condition, but without the lines of the verifier. */
function refusedText(
  { source, digest, functionName, why }: RefusedVersion,
  shown: (digest: string) => string,
): string {
  const [reason = ''] = why.split('\n');
  return `Not what is requested: ${functionName} of ${versionText(source, shown(digest))} is refused: ${reason}`;
}

function versionText(source: string, digest: string): string {
  return `${source} ${digest}`.trim();
}

/** Shortened to `sha256:0123456789ab`, which is enough to distinguish digests. */
function shortDigest(digest: string): string {
  return digest.slice(0, 'sha256:'.length + 12);
}
