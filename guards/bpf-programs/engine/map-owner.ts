/** Whose maps a program shares: the object of the node that its `mapownerselector` selects. */
import { labelSelectorOf, labelsMatch, SelectorError } from '../../../lib/kube/selectors/selectors.ts';
import { type NodeCondition, nodeCondition } from './node-condition.ts';
import type { Wanted } from './wanted.ts';

export type MapOwner = { readonly owner: string | undefined } | { readonly condition: NodeCondition };

/**
 * The owner of the maps of `one`. Only objects of its own namespace count; for a cluster-scoped program, cluster-scoped ones.
 *
 * @param isTried - Whether the kernel is asked for the object with this id.
 */
export function mapOwnerOf(one: Wanted, all: readonly Wanted[], isTried: (id: string) => boolean): MapOwner {
  const found = selectedOwners(one, all);
  if ('condition' in found) return found;
  const { owners } = found;
  if (owners === undefined) return { owner: undefined };
  const field = one.member.fields.mapOwnerSelector;
  const where =
    one.parent.namespace === undefined ? 'BpfProgram' : `BpfNsProgram of namespace ${one.parent.namespace}`;
  const [owner] = owners;
  if (owner === undefined) {
    return notFound(
      `${field} selects no ${where} of this node. It matches the labels of these objects, such as bpfman.io/ownedByProgram.`,
    );
  }
  if (owners.length > 1) {
    const names = owners.map(({ name }) => name).toSorted();
    return notFound(
      `${field} selects ${owners.length} objects but must select exactly one: ${names.slice(0, 5).join(', ')}. Use an owner with one attach point, or add labels.`,
    );
  }
  if (isCircle(one, owner, all)) {
    return notLoaded(
      `${field}: ${owner.name} shares the maps of this program itself, so neither can be first.`,
    );
  }
  if (!isTried(owner.id)) return notLoaded(`${owner.name}, whose maps it shares, is not loaded.`);
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
    return {
      owners: all.filter(
        (other) =>
          other.id !== one.id &&
          other.parent.kind.scope === one.parent.kind.scope &&
          other.parent.namespace === one.parent.namespace &&
          'attach' in other.goal &&
          labelsMatch(selector, other.labels),
      ),
    };
  } catch (error) {
    if (!(error instanceof SelectorError)) throw error;
    return notFound(`${one.member.fields.mapOwnerSelector}: ${error.message}.`);
  }
}

/** Whether the owner's owner, and so on, is `one`. */
function isCircle(one: Wanted, first: Wanted, all: readonly Wanted[]): boolean {
  const seen = new Set<string>();
  let owner: Wanted | undefined = first;
  while (owner !== undefined && !seen.has(owner.id)) {
    if (owner.id === one.id) return true;
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
