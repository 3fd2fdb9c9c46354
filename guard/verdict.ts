/** The verdicts of `guarded.ts` for all objects of a guard. */
import {
  type GuardedObject,
  type ObjectName,
  type Problem,
  problemsOf,
  type Processes,
  type RunGuard,
} from './guarded.ts';

export interface Verdict {
  readonly problems: readonly Problem[];
  /** How many objects are not guarded. */
  readonly failing: number;
  /** Why an object is not guarded; empty if it is. */
  of(object: ObjectName): readonly Problem[];
}

export function verdictOn(guard: RunGuard, objects: readonly GuardedObject[], processes: Processes): Verdict {
  const byObject = new Map<string, readonly Problem[]>();
  for (const object of objects) {
    const problems = problemsOf(guard, object, processes);
    const key = keyOf(object);
    // Objects of two groups may have the same kind and name.
    if (problems.length > 0) byObject.set(key, [...(byObject.get(key) ?? []), ...problems]);
  }
  return {
    problems: [...byObject.values()].flat(),
    failing: byObject.size,
    of: (object) => byObject.get(keyOf(object)) ?? [],
  };
}

function keyOf({ kind, namespace, name }: ObjectName): string {
  return `${kind}/${namespace ?? ''}/${name}`;
}
