import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { type FileIntegrity, names } from '../api.ts';
import { machineConfigAnnotations } from '../results/holdoff.ts';
import type { NodeRequest } from '../results/node-result.ts';
import { JobInputs } from './job-inputs.ts';

const integrity = (provider: 'native' | 'aide', annotations = {}): FileIntegrity =>
  ({ metadata: { name: 'example', annotations }, spec: { config: {}, provider } }) as FileIntegrity;
const node = (current: string, state: string) => ({
  metadata: {
    name: 'n1',
    annotations: { [machineConfigAnnotations.current]: current, [machineConfigAnnotations.state]: state },
  },
});
const configuration = (text: string) => ({ metadata: { name: 'c' }, data: { [names.confKey]: text } });

suite('inputs of a job', () => {
  test('a configuration is another one when its text is', () => {
    const inputs = new JobInputs('n1', integrity('native'));
    assert.equal(inputs.takeConfiguration(undefined), false);
    assert.equal(inputs.takeConfiguration(configuration('/etc p')), true);
    assert.equal(inputs.takeConfiguration(configuration('/etc p')), false);
    assert.equal(inputs.conf, '/etc p');
    assert.equal(inputs.takeConfiguration(undefined), true);
    assert.equal(inputs.conf, undefined);
  });

  test('nothing is said of changes while the FileIntegrity is held, or the node is updated', () => {
    const inputs = new JobInputs('n1', integrity('native'));
    assert.equal(inputs.isHeld, false);
    inputs.node = node('rendered-1', 'Working');
    assert.equal(inputs.isHeld, true);
    inputs.node = node('rendered-1', 'Done');
    assert.equal(inputs.isHeld, false);
    inputs.integrity = integrity('native', { [names.holdoff]: '' });
    assert.equal(inputs.isHeld, true);
  });

  test('a node is reconfigured where it has another configuration than before, and both are known', () => {
    const inputs = new JobInputs('n1', integrity('native'));
    assert.equal(inputs.isReconfiguredSince('rendered-1'), false);
    inputs.node = node('rendered-2', 'Done');
    assert.equal(inputs.isReconfiguredSince(undefined), false);
    assert.equal(inputs.isReconfiguredSince('rendered-2'), false);
    assert.equal(inputs.isReconfiguredSince('rendered-1'), true);
  });

  test('a run belongs to a provider and configuration; a check also to holds and new baselines', () => {
    const inputs = new JobInputs('n1', integrity('native'));
    const stamps = (requests: readonly NodeRequest[] = []) =>
      (['init', 'check'] as const).map((kind) => inputs.stampOf(kind, requests));
    const [init, check] = stamps();
    const [sameInit, otherCheck] = stamps([{ kind: 're-init', id: 'r1' } as NodeRequest]);
    assert.equal(sameInit, init);
    assert.notEqual(otherCheck, check);
    inputs.takeConfiguration(configuration('/etc p'));
    const [otherInit, againOther] = stamps();
    assert.notEqual(otherInit, init);
    assert.notEqual(againOther, check);
    inputs.integrity = integrity('aide');
    assert.notEqual(stamps()[0], otherInit);
  });
});
