import { namespaceObstacle } from '../../../../test/network-policy/namespaces.fixture.ts';
import { scenariosSuite } from '../scenarios.suite.fixture.ts';
import { openNftablesDataplane } from './dataplane.ts';

scenariosSuite({ name: 'nftables', open: openNftablesDataplane }, namespaceObstacle());
