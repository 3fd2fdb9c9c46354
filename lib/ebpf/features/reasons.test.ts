import assert from 'node:assert/strict';
import { constants } from 'node:os';
import { test } from 'node:test';

import * as fc from '../../testing/fast-check.fixture.ts';
import { inUserNamespace, missingCapabilities, parseEffectiveCapabilities } from './capabilities.ts';
import { explainRefusal, isAtLeast, lastVerifierLine, type Needs, type ProbeContext } from './reasons.ts';
import { ENOTSUPP, errnoName } from '../libc.ts';
import { parseCgroupVersions, parseLockdown } from './kernel-facts.ts';

const { EPERM, EACCES, EINVAL, EAGAIN, EOPNOTSUPP } = constants.errno;

const context: ProbeContext = {
  release: '6.12.30-amd64',
  capabilities: ['CAP_SYS_ADMIN'],
  inUserNamespace: false,
  lockdown: 'none',
  lsms: ['bpf'],
  hasFunction: () => true,
};
const needs: Needs = { since: '5.5', capabilities: ['CAP_BPF', 'CAP_PERFMON'], builtWith: 'bpf_thing' };

test('every way the kernel says no has its own reason', () => {
  const log = 'func#0 @0\nunknown func bpf_probe_read_kernel#113\nprocessed 4 insns (limit 1000000)\n';
  const newerLog = 'program of this type cannot use helper bpf_probe_read_kernel#113\n';
  const table: readonly [string, { errno: number; log?: string }, Partial<ProbeContext>, RegExp][] = [
    [
      'refused',
      { errno: EPERM },
      {},
      /^The kernel returns EPERM although the process has the required capabilities\.$/,
    ],
    ['refused', { errno: EINVAL }, {}, /^The kernel returns EINVAL\.$/],
    ['refused', { errno: ENOTSUPP }, { hasFunction: () => undefined }, /ENOTSUPP/],
    ['missing_capability', { errno: EPERM }, { capabilities: ['CAP_BPF'] }, /EPERM: needs CAP_PERFMON\.$/],
    ['missing_capability', { errno: EACCES }, { capabilities: [] }, /needs CAP_BPF and CAP_PERFMON\.$/],
    ['missing_capability', { errno: EPERM }, { inUserNamespace: true }, /outside the user namespace/],
    ['refused', { errno: EACCES, log: 'R0 !read_ok\n' }, { capabilities: [] }, /EACCES \(R0 !read_ok\)\.$/],
    ['memlock_limit', { errno: EPERM }, { release: '5.10.0-30-amd64' }, /RLIMIT_MEMLOCK/],
    ['lockdown', { errno: EPERM }, { lockdown: 'confidentiality' }, /locked down/],
    ['lockdown', { errno: EINVAL, log }, { lockdown: 'confidentiality' }, /unknown func/],
    ['lockdown', { errno: EINVAL, log: newerLog }, { lockdown: 'confidentiality' }, /cannot use helper/],
    ['refused', { errno: EPERM }, { lockdown: 'integrity' }, /EPERM/],
    ['not_in_kernel', { errno: EINVAL }, { release: '5.4.0' }, /requires Linux 5\.5, this is 5\.4\.0/],
    ['not_in_kernel', { errno: EINVAL }, { hasFunction: () => false }, /built without it \(no bpf_thing\)/],
  ];
  for (const [reason, { errno, log: verifierLog = '' }, overrides, detail] of table) {
    const answer = explainRefusal({ errno, log: verifierLog }, needs, { ...context, ...overrides });
    assert.ok(!answer.available);
    assert.equal(answer.reason, reason, answer.detail);
    assert.match(answer.detail, detail);
  }
});

test('errno numbers get their names', () => {
  assert.equal(errnoName(EAGAIN), 'EAGAIN');
  assert.equal(errnoName(EOPNOTSUPP), 'EOPNOTSUPP');
  assert.equal(errnoName(524), 'ENOTSUPP');
  assert.equal(errnoName(4711), 'errno 4711');
});

test('the message has the line of the verifier log with the reason', () => {
  assert.equal(lastVerifierLine(''), undefined);
  assert.equal(lastVerifierLine('processed 2 insns (limit 1000000)\n'), undefined);
  assert.equal(
    lastVerifierLine('a\nR0 !read_ok\nverification time 20 usec\nprocessed 1 insns\n'),
    'R0 !read_ok',
  );
});

test('kernel releases compare by number', () => {
  assert.ok(isAtLeast('6.1.0-25-amd64', '5.18'));
  assert.ok(isAtLeast('5.18.0', '5.18'));
  assert.ok(!isAtLeast('5.9.16', '5.18'));
  assert.ok(!isAtLeast('4.19.0', '5.5'));
  assert.ok(isAtLeast('garbage', '5.5'));
});

test('capabilities are read from any status text without fail, and only the set bits appear', () => {
  const status = 'CapInh:\t0000000000000000\nCapEff:\t000000c000001000\nCapBnd:\t000001ffffffffff\n';
  assert.deepEqual(parseEffectiveCapabilities(status), ['CAP_NET_ADMIN', 'CAP_PERFMON', 'CAP_BPF']);
  assert.deepEqual(parseEffectiveCapabilities('CapEff:\t8000000000000001\n'), ['CAP_CHOWN', 'CAP_63']);
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }), (bits) => {
      const names = parseEffectiveCapabilities(`CapEff:\t${bits.toString(16).padStart(16, '0')}\n`);
      assert.equal(names.length, bits.toString(2).replaceAll('0', '').length);
      assert.equal(new Set(names).size, names.length);
    }),
  );
  fc.assert(fc.property(fc.string({ unit: 'binary' }), (text) => void parseEffectiveCapabilities(text)));
});

test('CAP_SYS_ADMIN stands for the capabilities that were split off it', () => {
  assert.deepEqual(missingCapabilities(['CAP_SYS_ADMIN'], ['CAP_BPF', 'CAP_NET_ADMIN']), []);
  assert.deepEqual(missingCapabilities(['CAP_BPF'], ['CAP_BPF', 'CAP_PERFMON']), ['CAP_PERFMON']);
});

test('a user namespace shows in the id map', () => {
  assert.equal(inUserNamespace('         0          0 4294967295\n'), false);
  assert.equal(inUserNamespace('         0     100000      65536\n'), true);
  assert.equal(inUserNamespace('         0          0          1\n         1     100000      65535\n'), true);
});

test('files of /proc and /sys', () => {
  assert.equal(parseLockdown('none [integrity] confidentiality\n'), 'integrity');
  assert.equal(parseLockdown('[none] integrity confidentiality\n'), 'none');
  assert.equal(parseLockdown(''), undefined);
  assert.deepEqual(parseCgroupVersions('cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n'), [2]);
  assert.deepEqual(
    parseCgroupVersions('a /a cgroup rw 0 0\nb /b cgroup rw 0 0\nc /c cgroup2 rw 0 0\n'),
    [1, 2],
  );
  assert.deepEqual(parseCgroupVersions('cgroup /cgroup2 tmpfs rw 0 0\n'), []);
});
