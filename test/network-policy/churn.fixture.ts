/**
 * A process that programs a node again and again, in whose midst a test kills it. Its argument is the seed of what it programs.
 *
 * Pod x/a takes nothing but from z in all that it programs: whatever it was killed in, nothing else may pass.
 *
 * @module
 */
import { Random } from '../../shared/observe/depth.fixture.ts';
import { openNftablesDataplane } from '../../systems/network-policy/node/nftables/dataplane.ts';
import {
  addressesOf,
  changeBetween,
  everyone,
  type GivenPolicy,
  nodeRules,
} from '../../systems/network-policy/node/rules.fixture.ts';
import { podAddresses, podNames } from './network.fixture.ts';

const pods = podNames.map((name, place) => ({ name, addresses: podAddresses(place) }));
const random = new Random(Number(process.argv[2]));
const closed: GivenPolicy = {
  policy: 'x/closed',
  direction: 'ingress',
  selects: ['x/a'],
  allows: [{ peers: addressesOf(pods.filter(({ name }) => name.startsWith('z/'))), ports: 'any' }],
};

function anyRules() {
  const others = pods.filter(({ name }) => name !== 'x/a' && random.chance(0.8));
  const more = Array.from({ length: random.below(6) }, (_, at): GivenPolicy => ({
    policy: `y/p${at}`,
    direction: random.pick(['ingress', 'egress']),
    selects: others.map(({ name }) => name).filter(() => random.chance(0.5)),
    allows: random.chance(0.5) ? [everyone] : [],
  }));
  return nodeRules([pods[0]!, ...others], [closed, ...more]);
}

using dataplane = openNftablesDataplane({ unknownPods: random.pick(['allow', 'deny']) });
let last = anyRules();
await dataplane.sync(last);
process.stdout.write('programmed\n');
for (;;) {
  const next = anyRules();
  if (random.chance(0.2)) await dataplane.sync(next);
  else await dataplane.apply(next, changeBetween(last, next));
  last = next;
}
