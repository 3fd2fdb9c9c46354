import assert from 'node:assert/strict';
import { test } from 'node:test';

import { everyCapability, HostCapabilities } from './capabilities.ts';

test('patterns grant what they name', () => {
  const table: readonly (readonly [patterns: readonly string[], path: string, allowed: boolean])[] = [
    [[], 'oci/v1/verify', false],
    [['*'], 'oci/v1/verify', true],
    [['*'], 'kubernetes/can_i', true],
    [['oci/v1/verify'], 'oci/v1/verify', true],
    [['oci/v1/verify'], 'oci/v2/verify', false],
    [['oci/*'], 'oci/v2/verify', true],
    [['oci/v2/*'], 'oci/v1/verify', false],
    [['oci/*'], 'net/v1/dns_lookup_host', false],
    [[' net/* ', 'kubernetes/can_i'], 'net/v1/dns_lookup_host', true],
    [['kubernetes/can_i'], 'kubernetes/get_resource', false],
    [['kubernetes/*'], 'kubernetes/get_resource', true],
  ];
  for (const [patterns, path, allowed] of table) {
    assert.equal(new HostCapabilities(patterns).allows(path), allowed, `${patterns.join()} ${path}`);
  }
  assert.equal(everyCapability.allows('crypto/v1/is_certificate_trusted'), true);
  assert.equal(new HostCapabilities([]).allows('crypto/v1/is_certificate_trusted'), false);
});

test('patterns that name nothing are refused, with what to write', () => {
  for (const [pattern, message] of [
    ['oci*', /\* stands for everything after a \/\. Write it as oci\/\*/],
    ['oci/v1/oci_*', /\* stands for everything/],
    ['*/oci', /\* stands for everything/],
    ['', /there is no such capability\. Use one of: .*oci\/v1\/verify/],
    ['unknown/*', /there is no such capability/],
    ['oci/v99/*', /there is no such capability/],
    ['kubernetes/nonexistent', /there is no such capability/],
    ['oci', /it is a group of capabilities\. Write oci\/\* for the whole group/],
    ['oci/v1', /Write oci\/v1\/\* for the whole group/],
  ] as const) {
    assert.throws(
      () => new HostCapabilities(['net/*', pattern]),
      { code: 'RAMPART_INPUT', message },
      pattern,
    );
  }
});
