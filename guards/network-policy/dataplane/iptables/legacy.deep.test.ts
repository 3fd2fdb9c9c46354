import { iptablesSuite } from './suite.fixture.ts';

iptablesSuite('legacy');
