import { kernelSuite } from './kernel.suite.fixture.ts';

kernelSuite('6.12', /^6\.12\.\d+\+deb1\d-amd64$/);
