import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { type Section, moduleOf, sectionIds, sectionsOf } from './binary.ts';
import { inspectPolicy, readPolicyMetadata } from './metadata.ts';
import { allRuntimes, policyModule } from './policies.fixture.ts';

const modes = { wapc: 'kubewarden-wapc', wasi: 'wasi', opa: 'opa', gatekeeper: 'gatekeeper' } as const;

/** A module whose metadata say something else, or nothing. */
function withMetadata(text: string | undefined, runtime: keyof typeof modes = 'wapc'): Uint8Array {
  const others = sectionsOf(policyModule('labels', runtime)).filter(
    ({ id, content }) =>
      !(id === sectionIds.custom && Buffer.from(content).includes('io.kubewarden.metadata')),
  );
  if (text === undefined) return moduleOf(others);
  const name = Buffer.from('io.kubewarden.metadata');
  const section: Section = {
    id: sectionIds.custom,
    content: Buffer.concat([Buffer.of(name.length), name, Buffer.from(text)]),
  };
  return moduleOf([...others, section]);
}

suite('metadata of a policy', () => {
  test('the metadata of each policy names its runtime, and has its annotations', () => {
    for (const runtime of allRuntimes) {
      const { metadata, ...module } = inspectPolicy(policyModule('labels', runtime));
      assert.equal(module.runtime, runtime);
      assert.deepEqual(metadata, {
        executionMode: modes[runtime],
        protocolVersion: 'v1',
        policyType: 'kubernetes',
        mutating: false,
        backgroundAudit: true,
        rules: [
          { apiGroups: [''], apiVersions: ['v1'], resources: ['pods'], operations: ['CREATE', 'UPDATE'] },
        ],
        contextAwareResources: [],
        annotations: { 'io.kubewarden.policy.title': 'labels', 'io.kubewarden.policy.severity': 'medium' },
      });
    }
    assert.deepEqual(readPolicyMetadata(policyModule('lookup', 'wasi'))?.contextAwareResources, [
      { apiVersion: 'v1', kind: 'Namespace' },
      { apiVersion: 'apps/v1', kind: 'Deployment' },
    ]);
  });

  test('a module without metadata is recognised by its imports and exports', () => {
    for (const [runtime, reported] of [
      ['wapc', 'wapc'],
      ['wasi', 'wasi'],
      ['opa', 'opa'],
      ['gatekeeper', 'opa'],
    ] as const) {
      const module = withMetadata(undefined, runtime);
      assert.equal(readPolicyMetadata(module), undefined);
      assert.equal(inspectPolicy(module).runtime, reported);
    }
    const empty = moduleOf([]);
    assert.throws(() => inspectPolicy(empty), {
      code: 'RAMPART_INPUT',
      message: /cannot determine the runtime of the policy/,
    });
  });

  test('fields missing in an old policy have the defaults of upstream', () => {
    const { executionMode, mutating, backgroundAudit } =
      readPolicyMetadata(withMetadata('{"rules":[]}')) ?? {};
    assert.deepEqual([executionMode, mutating, backgroundAudit], ['kubewarden-wapc', false, true]);
  });

  test('metadata that cannot be understood are refused', () => {
    for (const [text, message] of [
      ['{', /it is not JSON/],
      ['[]', /it is not an object/],
      ['{"executionMode":"docker"}', /executionMode "docker" is not one of kubewarden-wapc/],
      ['{"executionMode":"toString"}', /executionMode "toString" is not one of/],
      ['{"rules":{}}', /rules is not a list of objects/],
      ['{"contextAwareResources":[{"kind":"Pod"}]}', /has no apiVersion or kind/],
    ] as const) {
      assert.throws(() => readPolicyMetadata(withMetadata(text)), { code: 'RAMPART_INPUT', message }, text);
    }
  });

  test('a file that is not a module is refused, wherever it breaks off', () => {
    assert.throws(() => readPolicyMetadata(Buffer.from('#!/bin/sh')), {
      code: 'RAMPART_INPUT',
      message: /this is not a WebAssembly module of version 1/,
    });
    const whole = policyModule('labels', 'wapc');
    for (let size = 9; size < 200; size++) {
      assert.throws(
        () => inspectPolicy(whole.subarray(0, size)),
        { code: 'RAMPART_INPUT', message: /is truncated|cannot determine the runtime/ },
        String(size),
      );
    }
  });
});
