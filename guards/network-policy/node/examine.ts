import type { ExamineMachine } from '../../../guard/machine.ts';
import { examineMachine, type MachineFact } from './machine.ts';

/** The consequences of missing features. Those that are not listed here are reported elsewhere, or needed by one backend only. */
const losses: Readonly<Record<string, string>> = {
  nfnetlink_log: 'does not report refused packets',
  conntrack: 'cannot tell answers from new connections',
  'bridge-nf': 'does not see packets between pods on the same bridge, with iptables',
};

export const examineNetworkPolicy: ExamineMachine = async ({ signal }) => {
  const network = await examineMachine(signal);
  const { backend, facts, others } = network;
  const missing = facts.filter(({ available }) => !available);
  const because = ({ name, detail }: MachineFact): string => `${name}: ${detail}`;
  return {
    mode: backend ?? undefined,
    obstacles:
      backend === null
        ? [`neither nftables nor iptables works: ${missing.map(because).slice(0, 2).join('; ')}`]
        : [],
    limits: [
      ...missing.flatMap(({ name, detail }) => {
        const loss = losses[name];
        return loss === undefined || backend === null ? [] : [`${loss}: ${detail}`];
      }),
      ...others,
    ],
    facts: { network },
  };
};
