/** `rampart bpf verify -f`: loads what objects request, and attaches nothing. */
import { mapInfo, programInfo } from '../kernel/info.ts';
import { printable } from '../../../lib/output/printable.ts';
import type { Member } from '../engine/member.ts';
import type { Parent } from '../engine/parent.ts';
import { tcMask, xdpMask } from '../engine/proceed-on.ts';
import { ProgramFailure } from '../kernel/failure.ts';
import type { Opened, ProgramRequest } from '../kernel/load/load-object.ts';
import { type VerifiedProgram, verifyWanted, type WantedProgram } from '../kernel/load/verify-bytecode.ts';
import type { ReadOptions } from '../kernel/running/kept.ts';
import { type Joining, type TriedHook, tryChain } from '../kernel/chain/try-chain.ts';
import { isBpffs } from '../kernel/pins/pin.ts';
import { pinDirectory, programsDirectory } from '../node/locked-host.ts';
import { tenantRules } from '../options.ts';
import { fileSubject, imageSubject, type Subject } from './bytecode-subject.ts';
import type { VerifyOptions } from './command.ts';
import { isPrinted, print } from './print.ts';
import { lines, printPrograms } from './verify.ts';
import { readObjects, type RequestedObject } from './requested-objects.ts';

interface VerifiedChain {
  /** Undefined for the primary interface, interfaces found by discovery, or those of pods. */
  readonly interface: string | undefined;
  readonly kind: 'tc' | 'xdp';
  readonly direction: 'egress' | 'ingress' | undefined;
  /** The number of programs that would run there, including those that run now. */
  readonly members: number;
  readonly accepted: boolean;
  /** Why programs could not join the chain: a message for each of them. */
  readonly messages: readonly string[];
}

interface VerifiedObject {
  readonly object: string;
  readonly digest: string | undefined;
  readonly accepted: boolean;
  /** Problems of the object itself: in its fields, in the labels of its image, in the file. */
  readonly problems: readonly string[];
  readonly programs: readonly VerifiedProgram[];
  readonly chains: readonly VerifiedChain[];
}

/** @returns the exit code: 0 if all programs would run here, 1 if one would not. */
export async function runVerifyObjects(
  path: string,
  options: VerifyOptions,
  signal: AbortSignal,
): Promise<number> {
  const verified: VerifiedObject[] = [];
  for (const object of readObjects(path)) verified.push(await verifyObject(object, options, signal));
  const objects = verified.map(({ programs, digest, ...rest }) => ({
    ...{ ...rest, digest: digest ?? null },
    programs: programs.map((program) => ({ ...program, type: program.type ?? null })),
  }));
  if (!isPrinted(options, 'rampart.dev/bpf-verify-objects/v1', { objects }))
    for (const one of verified) show(one, options);
  return verified.every(({ accepted }) => accepted) ? 0 : 1;
}

async function verifyObject(
  { name, parent, problems }: RequestedObject,
  options: VerifyOptions,
  signal: AbortSignal,
): Promise<VerifiedObject> {
  const nothing = { object: name, digest: undefined, accepted: false, problems, programs: [], chains: [] };
  if (parent === undefined) return nothing;
  const { path, image } = parent.bytecode;
  const subject =
    path === undefined
      ? await imageSubject(image?.url ?? '', options, signal)
      : await fileSubject(path, options);
  const { digest } = subject;
  if ('untrusted' in subject) return { ...nothing, digest, problems: [subject.untrusted] };
  if (!('values' in parent.globals)) return { ...nothing, digest, problems: [parent.globals.problem] };
  const unlabelled = labelProblems(parent, subject);
  const { values: globals } = parent.globals;
  const tenants = parent.namespace === undefined ? undefined : tenantRules({ ...options });
  let chains: readonly VerifiedChain[] = [];
  try {
    const programs = verifyWanted(
      subject.bytes,
      wantedOf(parent),
      { globals, tenants },
      (opened, accepted) => {
        chains = tryChains(parent, opened, accepted, placeOf(options));
      },
    );
    const accepted =
      unlabelled.length === 0 &&
      programs.every(({ loads }) => loads) &&
      chains.every((chain) => chain.accepted);
    return { object: name, digest, accepted, problems: unlabelled, programs, chains };
  } catch (error) {
    if (!(error instanceof ProgramFailure)) throw error;
    return { ...nothing, digest, problems: [...unlabelled, error.message] };
  }
}

/** The programs of an object, each only once even if it is attached in several places. */
function wantedOf({ members }: Parent): readonly WantedProgram[] {
  const wanted = new Map<string, WantedProgram>();
  for (const { type, spec } of members) {
    const functionName = spec.bpffunctionname;
    const kernelFunction = type === 'fentry' || type === 'fexit' ? spec.func_name : undefined;
    wanted.set(JSON.stringify([functionName, type, kernelFunction]), { functionName, type, kernelFunction });
  }
  return [...wanted.values()];
}

function labelProblems({ members }: Parent, { types }: Subject): readonly string[] {
  if (types === undefined) return [];
  const problems = members.flatMap(({ fields, spec: { bpffunctionname: name } }) =>
    Object.hasOwn(types, name)
      ? []
      : [
          `${fields.functionName}: according to its labels, the image has no program ${name}; it has ${Object.keys(types).toSorted().join(', ') || 'none'}.`,
        ],
  );
  return [...new Set(problems)];
}

/** Where the agent keeps what runs; undefined if it has never run. */
function placeOf({ bpffs, bpfState }: VerifyOptions): ReadOptions | undefined {
  if (!isBpffs(bpffs)) return undefined;
  return { bpffs, name: pinDirectory, stateDirectory: programsDirectory(bpfState) };
}

function tryChains(
  parent: Parent,
  opened: Opened<ProgramRequest>,
  accepted: ReadonlySet<ProgramRequest>,
  place: ReadOptions | undefined,
): readonly VerifiedChain[] {
  const hooks = new Map<string, { readonly hook: TriedHook; readonly joining: Joining[] }>();
  for (const [at, member] of parent.members.entries()) {
    const ordered = orderOf(member);
    const prepared = [...opened.programs].find(
      ([request]) =>
        accepted.has(request) &&
        request.functionName === member.spec.bpffunctionname &&
        request.type === member.type,
    )?.[1];
    if (ordered === undefined || prepared === undefined) continue;
    const instructions = prepared.program.instructions();
    const fds = new Set(Array.from(instructions.mapReferences(), ({ immediate }) => immediate));
    for (const hook of ordered.hooks) {
      const key = JSON.stringify(hook);
      const found = hooks.get(key) ?? { hook, joining: [] };
      hooks.set(key, found);
      found.joining.push({
        ...{ id: `\0${at}`, owner: parent.key, name: parent.name, instructions },
        functionName: member.spec.bpffunctionname,
        ...{ priority: ordered.priority, proceedOn: ordered.proceedOn },
        mapIds: [...fds].map((fd) => mapInfo(fd).id),
        gpl: programInfo(prepared.program.fd).gplCompatible,
        hasFrags: prepared.program.section.startsWith('xdp.frags'),
      });
    }
  }
  return [...hooks.values()].map(({ hook, joining }): VerifiedChain => {
    const { members, refused } = tryChain(place, hook, joining);
    const messages = joining.flatMap(({ id, functionName }) => {
      const failure = refused.get(id);
      return failure === undefined ? [] : [`${functionName}: ${failure.message}`];
    });
    const { interface: name, kind, direction } = hook;
    return { interface: name, kind, direction, members, accepted: messages.length === 0, messages };
  });
}

interface Ordered {
  readonly hooks: readonly TriedHook[];
  readonly priority: number;
  readonly proceedOn: number;
}

/** Undefined if the program is not a member of a chain. */
function orderOf(member: Member): Ordered | undefined {
  if (member.unlinked !== undefined || (member.type !== 'xdp' && member.type !== 'tc')) return undefined;
  const { spec } = member;
  const inPods = 'containers' in spec && spec.containers !== undefined;
  const names = inPods ? [undefined] : (spec.interfaceselector.interfaces ?? [undefined]);
  const direction = member.type === 'tc' ? member.spec.direction : undefined;
  const proceedOn = member.type === 'tc' ? tcMask(member.spec.proceedon) : xdpMask(member.spec.proceedon);
  return {
    hooks: [...new Set(names)].map((name) => ({ kind: member.type, interface: name, direction })),
    ...{ priority: spec.priority, proceedOn },
  };
}

function show(verified: VerifiedObject, options: VerifyOptions): void {
  const { object, digest, accepted, problems, programs, chains } = verified;
  process.stdout.write(`${printable(object)}: ${accepted ? 'accepted' : 'refused'}\n${digest ?? ''}\n`);
  for (const problem of problems) process.stdout.write(`\n${lines(problem)}\n`);
  if (programs.length > 0) {
    process.stdout.write('\n');
    printPrograms(programs, options);
  }
  if (chains.length > 0) {
    process.stdout.write('\n');
    print(
      ['CHAIN', 'PROGRAMS', 'VERDICT'],
      chains.map(({ interface: name = '(any)', kind, direction, members, accepted: joins }) => ({
        cells: [
          printable([name, kind, direction ?? ''].join(' ').trim()),
          String(members),
          joins ? { text: 'accepted', style: 'green' } : { text: 'refused', style: 'red' },
        ],
      })),
      options,
    );
    for (const message of chains.flatMap(({ messages }) => messages))
      process.stdout.write(`\n${lines(message)}\n`);
  }
  process.stdout.write('\n');
}
