import { scenariosSuite } from '../scenarios.suite.fixture.ts';
import { openIptablesDataplane } from './dataplane.ts';
import { iptablesObstacle } from './obstacle.fixture.ts';

scenariosSuite(
  {
    name: 'iptables-legacy',
    open: (options) => openIptablesDataplane({ ...options, variant: 'legacy' }),
    // Each change starts programs.
    minPolicies: 20,
  },
  iptablesObstacle('legacy'),
);
