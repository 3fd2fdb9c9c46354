import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { labelValueProblems } from '../../../lib/kube/selectors/label-names.ts';
import type { ConfigMap } from '../../../lib/kube/object/object.ts';
import { RampartError } from '../../../lib/errors/errors.ts';
import * as fc from '../../../lib/testing/fast-check.fixture.ts';
import { names } from '../api.ts';
import { anyResult } from './node-result.fixture.ts';
import { maxUnreadFiles } from './node-result.ts';
import { labelValue, nodeStatusName, temporaryName } from './object-names.ts';
import {
  findingsKey,
  readResultConfigMap,
  resultAnnotation,
  resultConfigMap,
  resultLogLimitBytes,
} from './result-config-map.ts';

/** As the API hands it back. */
const stored = (configMap: ConfigMap): ConfigMap => JSON.parse(JSON.stringify(configMap)) as ConfigMap;

const isDecode = (error: unknown): boolean =>
  error instanceof RampartError && error.code === 'RAMPART_DECODE';

suite('results in ConfigMaps', () => {
  test('reads what it writes', () => {
    fc.assert(
      fc.property(anyResult(), (result) => {
        assert.deepEqual(readResultConfigMap(stored(resultConfigMap(result))), result);
      }),
    );
  });

  test('labels, annotations and data are those that FIO knows', () => {
    const [result] = fc.sample(anyResult({ kind: 'failed' }), { numRuns: 1, seed: 1 });
    assert.ok(result?.outcome.kind === 'failed');
    const outcome = { ...result.outcome, added: 1, changed: 2, removed: 3 };
    const log = { data: 'the log', compressed: true, tooLarge: false };
    const owner = { apiVersion: 'v1', kind: 'X', name: 'example', uid: 'u' };
    const configMap = resultConfigMap(
      {
        ...result,
        fileIntegrity: { namespace: 'ns', name: 'example' },
        nodeName: 'node-1',
        outcome: { ...outcome, log },
      },
      owner,
    );
    assert.equal(configMap.metadata.name, 'aide-example-node-1');
    assert.deepEqual(configMap.metadata.ownerReferences, [owner]);
    assert.deepEqual(configMap.metadata.labels, {
      'file-integrity.openshift.io/owner': 'example',
      'file-integrity.openshift.io/node': 'node-1',
      'file-integrity.openshift.io/log': '',
    });
    const { [resultAnnotation]: _ours, ...annotations } = configMap.metadata.annotations ?? {};
    assert.deepEqual(annotations, {
      'file-integrity.openshift.io/files-added': '1',
      'file-integrity.openshift.io/files-changed': '2',
      'file-integrity.openshift.io/files-removed': '3',
      'file-integrity.openshift.io/compressed': '',
    });
    assert.equal(configMap.data?.['integritylog'], 'the log');
  });

  test('a result of FIO is read: its outcome, and when it was made', () => {
    const labels = { [names.ownerLabel]: 'fi', [names.nodeLabel]: 'n', [names.logLabel]: '' };
    const creationTimestamp = '2026-01-02T03:04:05Z';
    const metadata = { namespace: 'ns', name: 'aide-fi-n', labels, creationTimestamp };
    const read = readResultConfigMap({ metadata });
    assert.deepEqual(read.outcome, { kind: 'succeeded' });
    assert.equal(read.atMs, Date.parse(creationTimestamp));
    assert.equal(read.isUnnumbered, true);
    assert.equal(read.detection.events, 'none');
    const errored = { ...metadata, annotations: { [names.errorMessage]: 'IO error' } };
    assert.deepEqual(readResultConfigMap({ metadata: errored }).outcome, {
      kind: 'errored',
      message: 'IO error',
    });
    const annotations = { [names.filesAdded]: '1', [names.filesChanged]: '0', [names.filesRemoved]: '2' };
    const failed = { metadata: { ...metadata, annotations }, data: { [names.logKey]: 'log' } };
    const log = { data: 'log', compressed: false, tooLarge: false };
    assert.deepEqual(readResultConfigMap(failed).outcome, {
      kind: 'failed',
      added: 1,
      changed: 0,
      removed: 2,
      log,
    });
  });

  test('whatever is in a ConfigMap, it is a result or a DECODE error', () => {
    const damaged = fc.tuple(anyResult(), fc.nat(2), fc.integer(), fc.string(), fc.jsonValue());
    fc.assert(
      fc.property(damaged, ([result, where, at, text, value]) => {
        const configMap = stored(resultConfigMap(result));
        const { annotations = {} } = configMap.metadata;
        const facts = JSON.parse(annotations[resultAnnotation] ?? '') as Record<string, unknown>;
        const keys = Object.keys(facts);
        if (where === 0) facts[keys[Math.abs(at) % keys.length] ?? ''] = value;
        annotations[resultAnnotation] = where === 1 ? text : JSON.stringify(facts);
        if (where === 2) configMap.data = { [findingsKey]: JSON.stringify([value]) };
        try {
          readResultConfigMap(configMap);
        } catch (error) {
          assert.ok(isDecode(error), String(error));
        }
      }),
      { numRuns: 300 },
    );
  });

  test('a result under the name or in the namespace of another is refused', () => {
    const [result] = fc.sample(anyResult(), { numRuns: 1, seed: 2 });
    assert.ok(result);
    const { metadata, data } = resultConfigMap(result);
    for (const wrong of [{ name: 'aide-other-node' }, { namespace: 'elsewhere' }]) {
      const configMap = { metadata: { ...metadata, ...wrong }, ...(data && { data }) };
      assert.throws(() => readResultConfigMap(configMap), isDecode);
    }
  });

  test('fields of a later version are passed over', () => {
    const [result] = fc.sample(anyResult(), { numRuns: 1, seed: 3 });
    assert.ok(result);
    const configMap = stored(resultConfigMap(result));
    const { annotations = {} } = configMap.metadata;
    const facts = JSON.parse(annotations[resultAnnotation] ?? '') as object;
    annotations[resultAnnotation] = JSON.stringify({ ...facts, later: [1] });
    assert.deepEqual(readResultConfigMap(configMap), result);
  });

  test('it fits whatever is in it, and what does not fit is counted', () => {
    const [sample] = fc.sample(anyResult({ kind: 'failed' }), { numRuns: 1, seed: 4 });
    assert.ok(sample?.outcome.kind === 'failed');
    const finding = {
      path: `/${'ä'.repeat(2000)}`,
      change: 'added',
      attributes: [],
      seenMs: 1,
      seenBy: 'scan',
    } as const;
    const findings = Array.from({ length: 300 }, () => finding);
    const with_ = (bytes: number) => ({
      ...sample,
      findings,
      omittedFindings: 1000,
      outcome: { ...sample.outcome, log: { data: 'x'.repeat(bytes), compressed: false, tooLarge: false } },
      detection: { ...sample.detection, reason: 'r'.repeat(1_000_000) },
      unread: { count: 99, files: Array.from({ length: 99 }, () => ({ path: finding.path, reason: 'EIO' })) },
    });
    for (const bytes of [0, resultLogLimitBytes, 1_048_570]) {
      const configMap = resultConfigMap(with_(bytes));
      const size = (of: object | undefined): number =>
        Object.entries(of ?? {}).reduce(
          (sum, [key, value]) => sum + key.length + Buffer.byteLength(String(value)),
          0,
        );
      const values = Object.values(configMap.data ?? {}).reduce(
        (sum, value) => sum + Buffer.byteLength(value),
        0,
      );
      assert.ok(values <= 1_048_576);
      assert.ok(size(configMap.metadata.annotations) <= 256 * 1024);
      const read = readResultConfigMap(configMap);
      assert.equal(read.findings.length + read.omittedFindings, 1300);
      assert.deepEqual([read.unread?.count, read.unread?.files.length], [99, maxUnreadFiles]);
      if (bytes <= resultLogLimitBytes) assert.ok(read.findings.length > 50);
    }
  });

  test('a long message is cut, and stays one annotation', () => {
    const [result] = fc.sample(anyResult({ kind: 'errored' }), { numRuns: 1, seed: 5 });
    assert.ok(result);
    const message = '😀'.repeat(100_000);
    const read = readResultConfigMap(resultConfigMap({ ...result, outcome: { kind: 'errored', message } }));
    assert.ok(read.outcome.kind === 'errored');
    assert.equal(read.outcome.message.length, 16_384);
  });
});

suite('names', () => {
  test('long names are shortened, and stay distinct', () => {
    assert.equal(temporaryName('fi', 'n'.repeat(55)), `aide-fi-${'n'.repeat(55)}`);
    assert.match(temporaryName('fi', 'n'.repeat(56)), /^aide-[0-9a-f]{40}$/);
    assert.notEqual(temporaryName('fi', 'n'.repeat(56)), temporaryName('fi', 'n'.repeat(57)));
    assert.equal(nodeStatusName('fi', 'node.example.com'), 'fi-node.example.com');
    assert.ok(nodeStatusName('f'.repeat(253), 'n'.repeat(253)).length <= 253);
  });

  test('names of any length are values of labels', () => {
    const name = fc.stringMatching(/^[a-z0-9]([a-z0-9.-]{0,250}[a-z0-9])?$/);
    fc.assert(
      fc.property(name, name, (a, b) => {
        assert.deepEqual(labelValueProblems(labelValue(a)), []);
        assert.equal(labelValue(a) === labelValue(b), a === b);
      }),
    );
  });
});
