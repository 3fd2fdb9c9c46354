/** Checks whether the rules in a kernel agree with the policies. */
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { parseAddress } from '../engine/addresses.ts';
import type { Direction } from '../engine/rules.ts';
import {
  type KernelDecision,
  type KernelPacket,
  type KernelRuleset,
  protocolNumbers,
} from '../dataplane/kernel-packet.ts';
import { droppingOf, noOtherRules, type OtherRules } from '../other-rules/other-rules.ts';
import type { ExplainedEnd, ExplainedSide, Explanation } from './explanation.ts';

export interface KernelSide {
  readonly direction: Direction;
  /** `elsewhere`: this kernel does not know the pod, so it has no rules for it. */
  readonly verdict: KernelDecision['verdict'] | 'elsewhere';
  /** Whether the verdict agrees with the policies; undefined if the pod is elsewhere. */
  readonly agrees?: boolean;
  /** The chains that the packet passed. */
  readonly chains: readonly string[];
  readonly words: string;
}

export interface KernelCheck {
  /** Dataplanes with rules of Rampart here; `null` if there are no such rules. `nftables and iptables (nft)`: a packet must pass both. */
  readonly backend: string | null;
  /** `agrees`: as far as this machine shows; `unknown`: neither end is a pod of this machine, or expected rules are missing. */
  readonly result: 'agrees' | 'differs' | 'unknown';
  readonly egress: KernelSide;
  readonly ingress: KernelSide;
  /** Rules of other programs that certainly or possibly refuse the packet. */
  readonly others: readonly string[];
}

/**
 * @param rulesets - Empty if the kernel has no Rampart rules.
 * @param isOfNode - Whether an address is one of this machine.
 */
export function compareWithKernel(
  explanation: Explanation,
  rulesets: readonly KernelRuleset[],
  others: OtherRules = noOtherRules,
  isOfNode: (address: string) => boolean = () => false,
): KernelCheck {
  const { from, to, protocol, port, fromOwnNode } = explanation;
  const [source, destination] = [parseAddress(from.address), parseAddress(to.address)];
  const number = (protocolNumbers as Readonly<Record<string, number>>)[protocol];
  if (source === undefined || destination === undefined || number === undefined) {
    throw new RampartError(errorCodes.INPUT, {
      what: `cannot trace a ${protocol} packet through the kernel`,
    });
  }
  const packet: KernelPacket = { source, destination, protocol: number, port, fromNode: fromOwnNode };
  const egress = sideOf(rulesets, packet, explanation.egress, from);
  const ingress = sideOf(rulesets, packet, explanation.ingress, to);
  const answers = [egress.agrees, ingress.agrees];
  // This kernel has no rules, so the packet is refused or reported by another kernel, or not at all.
  const isUnknown = rulesets.length === 0 && (!explanation.allowed || explanation.wouldRefuse);
  const way = fromOwnNode ? 'from node' : isOfNode(to.address) ? 'to node' : 'through';
  const dropping = droppingOf(others, { family: source.family, way }).filter(
    // Rampart's rules precede those of other programs in the same variant of iptables, and accept.
    ({ iptables }) =>
      iptables === undefined || !rulesets.some((one) => one.backend === `iptables (${iptables})`),
  );
  const isDropped = explanation.allowed && dropping.some(({ isCertain }) => isCertain);
  const result =
    answers.includes(false) || isDropped
      ? 'differs'
      : answers.includes(true) && !isUnknown
        ? 'agrees'
        : 'unknown';
  const backend = rulesets.map((one) => one.backend).join(' and ') || null;
  const unread = others.unread.map((why) => `not read: ${why}`);
  const reported = [...dropping.map(({ words }) => words), ...others.enforcers, ...unread];
  return { backend, result, egress, ingress, others: reported };
}

const verbs = {
  allowed: 'allows',
  refused: 'refuses',
  'would-refuse': 'allows and reports',
} as const satisfies Record<KernelDecision['verdict'], string>;

function sideOf(
  rulesets: readonly KernelRuleset[],
  packet: KernelPacket,
  { direction, verdict: said }: ExplainedSide,
  own: ExplainedEnd,
): KernelSide {
  const name = own.pod ?? own.address;
  const expected = said === 'refused' || said === 'would-refuse' ? said : 'allowed';
  if (rulesets.length === 0) {
    if (expected === 'allowed') {
      const words = `This kernel has no Rampart rules, so it allows ${direction} of ${name}.`;
      return { direction, verdict: 'allowed', agrees: true, chains: [], words };
    }
    return elsewhere(direction, own, 'it has no Rampart rules');
  }
  const decisions = rulesets.map((ruleset) => ruleset.decide(direction, packet));
  const verdict =
    (['refused', 'would-refuse'] as const).find((one) => decisions.some((each) => each.verdict === one)) ??
    'allowed';
  const chains = decisions.flatMap((one) => one.chains);
  if (own.pod !== undefined && !decisions.some(({ isKnown }) => isKnown))
    return elsewhere(direction, own, 'it has no rules for that pod');
  const agrees = verdict === expected;
  const words = agrees
    ? `The kernel ${verbs[verdict]} ${direction} of ${name}, in agreement with the policies.`
    : `The kernel ${verbs[verdict]} ${direction} of ${name}; the policies differ. The agent of this node may be behind; see rampart status.`;
  return { direction, verdict, agrees, chains, words };
}

function elsewhere(direction: Direction, { pod, address, node }: ExplainedEnd, why: string): KernelSide {
  const where = node === undefined ? 'the node it runs on' : `node ${node}`;
  const words = `This kernel has no information about ${direction} of ${pod ?? address}: ${why}. Run the command on ${where}.`;
  return { direction, verdict: 'elsewhere', chains: [], words };
}
