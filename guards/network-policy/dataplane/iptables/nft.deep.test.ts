import { scenariosSuite } from '../scenarios.suite.fixture.ts';
import { openIptablesDataplane } from './dataplane.ts';
import { iptablesObstacle } from './obstacle.fixture.ts';

scenariosSuite(
  {
    name: 'iptables-nft',
    open: (options) => openIptablesDataplane({ ...options, variant: 'nft' }),
    // Each change starts programs.
    minPolicies: 20,
  },
  iptablesObstacle('nft'),
);
