/** Accesses and alert contexts for tests: one example of each, and any there can be. */

import * as fc from '../../../lib/testing/fast-check.fixture.ts';
import type { Access, Verdict } from '../../../lib/sensor/access.ts';
import type { AlertContext } from './alert.ts';

export const context: AlertContext = {
  policyName: 'kive-sample-policy',
  policyNamespace: 'kivebpf-system',
  kernelId: '2c147a95-23e5-4f99-a2de-67d5e9fdb502',
  path: '/secret.txt',
  callback: '',
  customMetadata: { severity: 'critical' },
  pod: {
    name: 'nginx-pod',
    namespace: 'default',
    ip: '10.244.1.2',
    container: { id: 'containerd://0c37', name: 'nginx' },
  },
  nodeName: 'kive-worker',
};

export const access: Access = {
  timeNs: BigInt(Date.UTC(2026, 10, 21, 10, 0, 0)) * 1_000_000n + 123_456_789n,
  inode: 16_256_084n,
  device: 3,
  mask: 36,
  from: '',
  to: '',
  namesOfFileSystem: false,
  verdict: 'allowed',
  folded: 0,
  tid: 176_929,
  pid: 176_928,
  ppid: 1,
  uid: 0,
  gid: 0,
  comm: 'cat',
  executable: '/usr/bin/cat',
  executableTruncated: false,
  cwd: '/',
  cwdTruncated: false,
  arguments: '/secret.txt -',
  argumentsTruncated: false,
  cgroupId: 4711n,
  cgroup: '/kubepods/besteffort/podu/da9e46',
  pidNamespace: 4_026_531_836,
  mountNamespace: 4_026_531_841,
};

// All of Unicode, control characters, and any 16-bit units: lone surrogates too.
export const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 40 }),
  fc
    .array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 20 })
    .map((units) => String.fromCharCode(...units)),
  fc.constantFrom(
    '',
    '"',
    '\\',
    '\n',
    '\u0000',
    '\u007f',
    '\u2028',
    '\ud800',
    '\udc00x',
    '__proto__',
    '/usr/bin/cat',
  ),
);
const u64 = fc.oneof(
  fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
  fc.constantFrom(0n, 2n ** 53n + 1n, 2n ** 64n - 1n),
);
const u32 = fc.integer({ min: 0, max: 0xffff_ffff });
export const anyAccess: fc.Arbitrary<Access> = fc.record({
  timeNs: u64,
  inode: u64,
  device: u32,
  mask: fc.oneof(fc.integer({ min: 0, max: 0xffff }), u32),
  from: text,
  to: text,
  namesOfFileSystem: fc.boolean(),
  verdict: fc.constantFrom<Verdict>('allowed', 'denied', 'unknown'),
  folded: u32,
  tid: u32,
  pid: u32,
  ppid: u32,
  uid: u32,
  gid: u32,
  comm: text,
  executable: text,
  executableTruncated: fc.boolean(),
  cwd: text,
  cwdTruncated: fc.boolean(),
  arguments: text,
  argumentsTruncated: fc.boolean(),
  cgroupId: u64,
  cgroup: text,
  pidNamespace: u32,
  mountNamespace: u32,
});
// JSON.parse of V8 13.6 misreads an escaped key as a backslash where it saw an object with the key '\\'
// before. The line is right; only reading it back here would not be.
const metadataKey = text.filter((key) => !key.includes('\\'));
export const anyContext: fc.Arbitrary<AlertContext> = fc.record({
  alertVersion: fc.constantFrom('v1', 'v2alpha1'),
  policyName: text,
  policyNamespace: text,
  kernelId: text,
  path: text,
  callback: text,
  moved: fc.boolean(),
  customMetadata: fc.dictionary(metadataKey, text, { maxKeys: 4 }),
  pod: fc.record({ name: text, namespace: text, ip: text, container: fc.record({ id: text, name: text }) }),
  nodeName: text,
});
