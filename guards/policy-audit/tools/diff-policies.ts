/** Finds the objects whose verdict differs between two versions of policies. */
import { errorCodes, messageOf, RampartError } from '../../../lib/errors/errors.ts';
import type { Evaluator } from '../engine/evaluator.ts';
import { judge, openNamed, type RunOptions, type RunResult } from './run-policies.ts';
import type { NamedPolicy } from './policy-source.ts';
import type { Subject, Subjects } from './subjects.ts';

export type DiffVerdict = 'allowed' | 'denied' | 'error';

export interface Change {
  /** The policy's ID; the new one if it was renamed. */
  readonly policy: string;
  readonly object: string;
  /** '' for an object of a cluster. */
  readonly file: string;
  readonly line: number;
  readonly before: DiffVerdict;
  readonly after: DiffVerdict;
  /** Why the object is not allowed now or, if it is, why it was not before. */
  readonly message: string;
}

export interface Diff {
  readonly changes: readonly Change[];
  /** Number of objects that at least one of the policies applies to. */
  readonly objects: number;
  /** Number of evaluations without a verdict. */
  readonly errors: number;
  readonly problems: readonly string[];
}

/** The old and the new version of a policy; undefined if that version does not exist. */
interface Pair {
  readonly policy: string;
  readonly before: Open | undefined;
  readonly after: Open | undefined;
}

interface Open {
  readonly named: NamedPolicy;
  readonly evaluator: Evaluator;
  readonly options: RunOptions;
}

export interface PolicyVersion {
  readonly policies: readonly NamedPolicy[];
  /** Options of this version: parameters and exceptions may change with the policies. */
  readonly options: RunOptions;
}

/** 0 nothing changes, 1 something does, 2 an evaluation failed. */
export function exitCodeOfDiff({ changes, errors, problems }: Diff): number {
  if (errors > 0 || problems.length > 0) return 2;
  return changes.length > 0 ? 1 : 0;
}

/**
 * Compares policies with the same ID; if both lists have only one policy, compares the two whatever their IDs. A policy that is
 * missing in one of the lists counts there as one that allows everything.
 *
 * @throws {RampartError} `INPUT` for a policy that cannot be evaluated; the signal's reason
 */
export async function diffPolicies(
  old: PolicyVersion,
  next: PolicyVersion,
  subjects: AsyncIterable<Subject> | Iterable<Subject>,
  { namespaceLabels, signal }: Pick<Subjects, 'namespaceLabels'> & { readonly signal: AbortSignal },
): Promise<Diff> {
  await using stack = new AsyncDisposableStack();
  const opened = async (
    named: NamedPolicy | undefined,
    { options }: PolicyVersion,
  ): Promise<Open | undefined> => {
    if (named === undefined) return undefined;
    try {
      return { named, evaluator: stack.use(await openNamed(named, options)), options };
    } catch (error) {
      signal.throwIfAborted();
      const what = `${named.id} cannot be evaluated`;
      throw new RampartError(errorCodes.INPUT, { what, why: messageOf(error), cause: error });
    }
  };
  const pairs: Pair[] = [];
  for (const [policy, before, after] of pairsOf(old.policies, next.policies))
    pairs.push({ policy, before: await opened(before, old), after: await opened(after, next) });
  const changes: Change[] = [];
  let [objects, errors] = [0, 0];
  const ask = async (open: Open | undefined, subject: Subject): Promise<RunResult | undefined> => {
    if (open === undefined) return undefined;
    const { evaluator, named, options } = open;
    return judge(named, subject, { evaluator, namespaceLabels, options });
  };
  for await (const subject of subjects) {
    signal.throwIfAborted();
    let isAbout = false;
    for (const { policy, before: one, after: other } of pairs) {
      const [before, after] = [await ask(one, subject), await ask(other, subject)];
      for (const result of [before, after]) {
        if (result !== undefined && result.result !== 'skip') isAbout = true;
        if (result?.result === 'error') errors++;
      }
      const [was, is] = [verdictOf(before), verdictOf(after)];
      if (was === is) continue;
      const { name: object, file, line } = subject;
      const message = (is === 'allowed' ? before?.message : after?.message) ?? '';
      changes.push({ policy, object, file, line, before: was, after: is, message });
    }
    if (isAbout) objects++;
  }
  return { changes, objects, errors, problems: [] };
}

function* pairsOf(
  old: readonly NamedPolicy[],
  next: readonly NamedPolicy[],
): Generator<readonly [string, NamedPolicy | undefined, NamedPolicy | undefined]> {
  const [before, after] = [old[0], next[0]];
  if (before !== undefined && after !== undefined && old.length === 1 && next.length === 1) {
    yield [after.id, before, after];
    return;
  }
  const byId = new Map(next.map((named) => [named.id, named]));
  for (const named of old) {
    yield [named.id, named, byId.get(named.id)];
    byId.delete(named.id);
  }
  for (const named of byId.values()) yield [named.id, undefined, named];
}

/** A policy that does not apply counts as allowing. */
function verdictOf(result: RunResult | undefined): DiffVerdict {
  if (result?.result === 'fail') return 'denied';
  return result?.result === 'error' ? 'error' : 'allowed';
}
