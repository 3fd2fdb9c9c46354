/** Whether a peer of a rule matches the other side of a packet. */
import {
  type Labels,
  labelSelectorOf,
  type LabelSelectorObject,
  SelectorError,
} from '../../../lib/kube/selectors/selectors.ts';
import { type Block, parseBlock } from '../engine/addresses.ts';
import type { BlockObject, NamespaceObject, PeerObject, PodObject, PolicyObject } from '../engine/objects.ts';
import type { Party } from './parties.ts';

/** Whether the policy selects this pod. A policy with a malformed selector selects all pods of its namespace. */
export function selectsTarget(policy: PolicyObject, pod: PodObject): boolean {
  if ((policy.metadata.namespace ?? '') !== (pod.metadata.namespace ?? '')) return false;
  const selector = policy.spec?.podSelector ?? {};
  return !isWellFormed(selector) || selects(selector, pod.metadata.labels ?? {});
}

/** Whether `podSelector` is well formed. Otherwise the policy allows nothing. */
export function targetsAreKnown({ spec }: PolicyObject): boolean {
  return isWellFormed(spec?.podSelector ?? {});
}

/** @param namespace - The policy's namespace. */
export function peerFits(
  { podSelector, namespaceSelector, ipBlock }: PeerObject,
  namespace: string,
  party: Party,
  namespaces: readonly NamespaceObject[],
): boolean {
  const selectors = [podSelector, namespaceSelector].filter((one) => one !== undefined && one !== null);
  if (ipBlock !== undefined && ipBlock !== null) return selectors.length === 0 && blockFits(ipBlock, party);
  if (selectors.length === 0 || party.pod === undefined || !selectors.every(isWellFormed)) return false;
  const { labels, namespace: itsNamespace } = party.pod.metadata;
  if (!selects(podSelector ?? {}, labels ?? {})) return false;
  if (namespaceSelector === undefined || namespaceSelector === null) return itsNamespace === namespace;
  const known = namespaces.find(({ metadata }) => metadata.name === itsNamespace);
  return known !== undefined && selects(namespaceSelector, known.metadata.labels ?? {});
}

function blockFits({ cidr, except }: BlockObject, { address }: Party): boolean {
  const block = parseBlock(cidr);
  if (typeof block === 'string') return false;
  const holes = (except ?? []).map(parseBlock);
  const inOrder = holes.every(
    (hole) =>
      typeof hole !== 'string' &&
      hole.family === block.family &&
      has(block, hole.low) &&
      has(block, hole.high) &&
      !(has(hole, block.low) && has(hole, block.high)),
  );
  const within = (one: Block | string) =>
    typeof one !== 'string' && one.family === address.family && has(one, address.value);
  return inOrder && within(block) && !holes.some(within);
}

function has({ low, high }: Block, value: bigint): boolean {
  return low <= value && value <= high;
}

function isWellFormed(selector: LabelSelectorObject): boolean {
  try {
    labelSelectorOf(selector);
    return true;
  } catch (error) {
    if (error instanceof SelectorError) return false;
    throw error;
  }
}

/** Whether a well-formed selector selects the labels. */
function selects({ matchLabels, matchExpressions }: LabelSelectorObject, labels: Labels): boolean {
  const valueOf = (key: string) => (Object.hasOwn(labels, key) ? labels[key] : undefined);
  const byLabels = Object.entries(matchLabels ?? {}).every(([key, value]) => valueOf(key) === value);
  const byExpressions = (matchExpressions ?? []).every(({ key, operator, values }) => {
    const value = valueOf(key);
    if (operator === 'Exists') return value !== undefined;
    if (operator === 'DoesNotExist') return value === undefined;
    const isOneOf = value !== undefined && (values ?? []).includes(value);
    return operator === 'In' ? isOneOf : !isOneOf;
  });
  return byLabels && byExpressions;
}
