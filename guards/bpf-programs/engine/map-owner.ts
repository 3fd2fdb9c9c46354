/**
 * Determines whose maps a program shares: in v0.5.5, those of the per-node object that its `mapownerselector` selects; in v0.6, those of an
 * application.
 */
import { labelSelectorOf, labelsMatch, SelectorError } from '../../../lib/kube/selectors/selectors.ts';
import { type NodeCondition, nodeCondition } from './node-condition.ts';
import type { Wanted } from './wanted.ts';

export type MapOwner = { readonly owner: string | undefined } | { readonly condition: NodeCondition };

/**
 * The owner of the maps of `one`. Only objects in its namespace are considered; for a cluster-scoped program, only cluster-scoped ones.
 *
 * @param isTried - Whether the kernel will be asked to load the program of the object with this id.
 */
export function mapOwnerOf(one: Wanted, all: readonly Wanted[], isTried: (id: string) => boolean): MapOwner {
  const found = selectedOwners(one, all);
  if ('condition' in found) return found;
  const { owners } = found;
  if (owners === undefined) return { owner: undefined };
  const field = one.member.fields.mapOwnerSelector;
  const { kind, namespace } = one.parent;
  const isWhole = kind.api === 'v0.6';
  const type = isWhole ? `other ${kind.kind}` : kind.nodeType.kind;
  const where = namespace === undefined ? type : `${type} of namespace ${namespace}`;
  const [owner] = owners;
  if (owner === undefined) {
    return notFound(
      `${field} selects no ${where} ${isWhole ? 'that selects this node' : 'of this node'}. It matches the labels of these objects, such as bpfman.io/ownedByProgram.`,
    );
  }
  if (owners.length > 1) {
    const names = owners.map(nameOf).toSorted();
    const instead = isWhole ? 'Add labels' : 'Use an owner with one attach point, or add labels';
    return notFound(
      `${field} selects ${owners.length} objects but must select exactly one: ${names.slice(0, 5).join(', ')}. ${instead}.`,
    );
  }
  if (isCircle(one, owner, all)) {
    return notLoaded(
      `${field}: ${nameOf(owner)} shares the maps of this program itself, so neither can be first.`,
    );
  }
  if (!isTried(owner.id)) return notLoaded(`${nameOf(owner)}, whose maps it shares, is not loaded.`);
  return { owner: owner.id };
}

function selectedOwners(
  one: Wanted,
  all: readonly Wanted[],
): { readonly owners: readonly Wanted[] | undefined } | { readonly condition: NodeCondition } {
  const { mapownerselector: written } = one.member.spec;
  const { matchLabels = {}, matchExpressions = [] } = written ?? {};
  if (Object.keys(matchLabels).length === 0 && matchExpressions.length === 0) return { owners: undefined };
  try {
    const selector = labelSelectorOf(written);
    const { scope, nodeType } = one.parent.kind;
    const owners = all.filter(
      (other) =>
        !isSame(one, other) &&
        other.parent.kind.nodeType === nodeType &&
        other.parent.kind.scope === scope &&
        other.parent.namespace === one.parent.namespace &&
        'attach' in other.goal &&
        labelsMatch(selector, labelsOf(other)),
    );
    return { owners: one.parent.kind.api === 'v0.6' ? firstOfEach(owners) : owners };
  } catch (error) {
    if (!(error instanceof SelectorError)) throw error;
    return notFound(`${one.member.fields.mapOwnerSelector}: ${error.message}.`);
  }
}

/** All programs of a v0.6 application count as one: they have the same maps. */
function isSame(one: Wanted, other: Wanted): boolean {
  return one.parent.kind.api === 'v0.6' ? one.parent === other.parent : one.id === other.id;
}

/** One object for each application: the same one as long as the application's links stay. */
function firstOfEach(owners: readonly Wanted[]): Wanted[] {
  const byParent = Map.groupBy(owners, ({ parent }) => parent);
  return [...byParent.values()].map((own) => own.toSorted((a, b) => (a.id < b.id ? -1 : 1))[0] as Wanted);
}

function labelsOf({ parent, labels }: Wanted): Readonly<Record<string, string>> {
  return parent.kind.api === 'v0.6' ? { ...parent.object.metadata.labels, ...labels } : labels;
}

const nameOf = ({ parent, name }: Wanted): string => (parent.kind.api === 'v0.6' ? parent.key : name);

/** Whether following the owners, from `first` on, leads back to `one`. */
function isCircle(one: Wanted, first: Wanted, all: readonly Wanted[]): boolean {
  const seen = new Set<string>();
  let owner: Wanted | undefined = first;
  while (owner !== undefined && !seen.has(owner.id)) {
    if (isSame(owner, one)) return true;
    seen.add(owner.id);
    const next = selectedOwners(owner, all);
    owner = 'owners' in next && next.owners?.length === 1 ? next.owners[0] : undefined;
  }
  return false;
}

function notFound(message: string): { readonly condition: NodeCondition } {
  return { condition: nodeCondition('MapOwnerNotFound', message) };
}

function notLoaded(message: string): { readonly condition: NodeCondition } {
  return { condition: nodeCondition('MapOwnerNotLoaded', message) };
}
