import { kernelSuite } from './kernel.suite.fixture.ts';

kernelSuite('6.1', /^6\.1\.0-\d+-amd64$/);
