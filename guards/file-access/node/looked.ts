/** The result of the last look at a container. Unchanged parts remain the same objects, so that they cost only a comparison. */
import { sameFile } from '../../../lib/sensor/access.ts';
import { type FileState, watchedFile } from './file-state.ts';
import { isOver } from './desired.ts';
import { type FoundFile, nameFor, type NodeContainer } from '../kive-data.ts';
import type { CompiledTrap, PodView } from '../policy/matching.ts';
import { sameFilter } from '../process-filter.ts';
import { sameFiles } from './moved-files.ts';
import type { FollowedTrap } from './trap-files.ts';

/** A trap that matches a container. */
export interface MatchedTrap {
  readonly trap: CompiledTrap;
  readonly container: NodeContainer;
  readonly state: FileState;
  /** Name of the KiveData, which exists if the file is watched. */
  readonly name: string;
}

export interface Looked {
  readonly matched: readonly MatchedTrap[];
  /** Keyed by the name of the KiveData. */
  readonly files: ReadonlyMap<string, FoundFile>;
}

export const nothing: Looked = { matched: [], files: new Map() };

/**
 * The current state of a container, reusing the unchanged objects of the previous one.
 *
 * @param followed - The traps for the container, with the state of each.
 */
export function lookAgain(
  before: Looked,
  container: NodeContainer,
  followed: ReadonlyMap<CompiledTrap, FollowedTrap>,
  nodeName: string,
): Looked {
  const known = new Map(before.matched.map((matched) => [matched.trap, matched]));
  const [first] = before.matched;
  const kept = first !== undefined && sameContainer(first.container, container) ? first.container : container;
  const matched: MatchedTrap[] = [];
  const files = new Map<string, FoundFile>();
  for (const [trap, { state, processes }] of followed) {
    const was = known.get(trap);
    const name = was?.name ?? nameFor(trap, container, nodeName);
    matched.push(
      was?.container === kept && was.state === state ? was : { trap, container: kept, state, name },
    );
    const watched = watchedFile(state);
    if (watched === undefined) continue;
    const file = before.files.get(name);
    const same =
      file?.trap === trap &&
      file.container === kept &&
      file.directory === watched.directory &&
      sameFile(file.identity, watched.identity) &&
      sameFiles(file.moved ?? [], watched.moved) &&
      sameFilter(file.processes, processes);
    files.set(name, same ? file : { trap, container: kept, name, processes, ...watched });
  }
  return { matched, files };
}

/** Names of the KiveData that were added, removed or changed. */
export function* changedNames(before: Looked, now: Looked): Iterable<string> {
  for (const name of before.files.keys()) if (!now.files.has(name)) yield name;
  for (const [name, file] of now.files) if (before.files.get(name) !== file) yield name;
}

/** Keys of the policies whose traps have another state. */
export function changedPolicies(before: Looked, now: Looked): Set<string> {
  const keys = new Set<string>();
  const [was, is] = [new Set(before.matched), new Set(now.matched)];
  for (const one of was.symmetricDifference(is)) keys.add(one.trap.policyKey);
  return keys;
}

function sameContainer(a: NodeContainer, b: NodeContainer): boolean {
  return a.id === b.id && a.name === b.name && samePod(a.pod, b.pod);
}

/** Whether two pods have the same fields of those that traps match and alerts contain. */
export function samePod(a: PodView, b: PodView): boolean {
  return a === b || factsOf(a) === factsOf(b);
}

function factsOf({ metadata, status }: PodView): string {
  const { name, namespace, uid, labels } = metadata;
  const over = isOver({ metadata, status });
  return JSON.stringify([name, namespace, uid, labels, over, status?.podIP, status?.podIPs]);
}
