/**
 * Decides which names a CustomResourceDefinition gets: if two in a group have the same name, the first one keeps it
 * (apiextensions-apiserver `pkg/controller/status/naming_controller.go`).
 */
import type { ResourceNames } from '../resources/resource.ts';
import { deepEqual } from '../../json/json.ts';
import type { NewCondition } from './crd-conditions.ts';
import type { Crd } from './crd.ts';

/** Names that are taken in a group. */
export interface TakenNames {
  /** Plurals, singulars and short names. */
  readonly resources: ReadonlySet<string>;
  /** Kinds and list kinds. */
  readonly kinds: ReadonlySet<string>;
}

interface Naming {
  readonly accepted: ResourceNames;
  readonly condition: NewCondition;
}

export function takenNames(owners: Iterable<ResourceNames>): TakenNames {
  const [resources, kinds] = [new Set<string>(), new Set<string>()];
  for (const { plural, singular, kind, listKind, shortNames } of owners) {
    for (const name of [plural, singular, ...shortNames]) resources.add(name);
    for (const name of [kind, listKind]) kinds.add(name);
  }
  return { resources, kinds };
}

/** @param taken names of other kinds, without those of this definition. */
export function nameCrd({ names, acceptedNames }: Crd, taken: TakenNames): Naming {
  const conflicts: [reason: string, message: string][] = [];
  const choose = (
    field: 'kind' | 'listKind' | 'plural' | 'singular',
    used: ReadonlySet<string>,
    reason: string,
  ) => {
    const wanted = names[field];
    if (wanted === acceptedNames[field] || !used.has(wanted)) return wanted;
    conflicts.push([reason, inUse(wanted)]);
    return acceptedNames[field];
  };
  const plural = choose('plural', taken.resources, 'PluralConflict');
  const singular = choose('singular', taken.resources, 'SingularConflict');
  const shortNames = chooseShortNames(names, acceptedNames, taken.resources, conflicts);
  const kind = choose('kind', taken.kinds, 'KindConflict');
  const listKind = choose('listKind', taken.kinds, 'ListKindConflict');
  const accepted = { plural, singular, shortNames, kind, listKind, categories: names.categories };
  // As in Kubernetes, only the last of several conflicts is reported.
  const [reason, message] = conflicts.at(-1) ?? ['NoConflicts', 'no conflicts found'];
  const status = conflicts.length === 0 ? 'True' : 'False';
  return { accepted, condition: { type: 'NamesAccepted', status, reason, message } };
}

function chooseShortNames(
  { shortNames: wanted }: ResourceNames,
  { shortNames: had }: ResourceNames,
  used: ReadonlySet<string>,
  conflicts: [string, string][],
): readonly string[] {
  if (deepEqual(wanted, had)) return had;
  const refused = wanted.filter((name) => !had.includes(name) && used.has(name));
  if (refused.length === 0) return wanted;
  const messages = [...new Set(refused.map(inUse))];
  conflicts.push([
    'ShortNamesConflict',
    messages.length === 1 ? (messages[0] ?? '') : `[${messages.join(', ')}]`,
  ]);
  return had;
}

function inUse(name: string): string {
  return `${JSON.stringify(name)} is already in use`;
}
