import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { assertFinding } from '../../../guard/stream/finding-schema.fixture.ts';
import { printable, visibleJson } from '../../../lib/output/printable.ts';
import * as fc from '../../../lib/testing/fast-check.fixture.ts';
import {
  type Access,
  attributesOf,
  describeMask,
  kernelBits,
  operationOf,
} from '../../../lib/sensor/access.ts';
import { access, anyAccess, anyContext, context } from './alert.fixture.ts';
import { type AlertContext, AlertEncoder, type KiveAlert, namesOf } from './alert.ts';

/** The timestamp by another way than the encoder's: Date for the milliseconds, text for the rest. */
function rfc3339(timeNs: bigint): string {
  const iso = new Date(Number(timeNs / 1_000_000n)).toISOString();
  return iso.replace('Z', `${(timeNs % 1_000_000n).toString().padStart(6, '0')}Z`);
}

function truncatedOf(a: Access): readonly string[] {
  return Object.entries({
    binary: a.executableTruncated,
    cwd: a.cwdTruncated,
    arguments: a.argumentsTruncated,
  })
    .filter(([, cut]) => cut)
    .map(([field]) => field);
}

/** Keys that only operations have. */
function operationKeys(a: Access, path: string): object {
  const { mask } = a;
  const { from, to } = namesOf(a, path);
  const operation = operationOf(mask);
  if (operation === undefined) return {};
  return {
    operation,
    ...(operation === 'attributes' && { attributes: attributesOf(mask) }),
    ...(from !== '' && { from }),
    ...(to !== '' && { to }),
  };
}

/** The alert as a plain object; a u64 stands as a bigint. */
function plainAlert(c: AlertContext, a: Access) {
  const place = c.pod.name === '' ? '' : ` in ${c.pod.namespace}/${c.pod.name}/${c.pod.container.name}`;
  const did = { allowed: 'accessed', denied: 'was denied access to', unknown: 'tried to access' }[a.verdict];
  const program = a.executable === '' ? `[${a.comm}]` : a.executable;
  const reference = (kind: string, namespace: string, name: string) =>
    name === '' ? null : { kind, namespace, name };
  return {
    guard: 'file-access',
    kind: 'KiveAlert',
    time: rfc3339(a.timeNs),
    node: { name: c.nodeName },
    severity: a.verdict === 'denied' ? 'medium' : 'high',
    object: reference('Pod', c.pod.namespace, c.pod.name),
    policy: reference('KivePolicy', c.policyNamespace ?? '', c.policyName),
    verdict: a.verdict,
    message: `${printable(program)} ${did} ${printable(c.path + place)} (${describeMask(a.mask).join(', ')}).`,
    'kive-alert-version': c.alertVersion ?? 'v1',
    'kive-policy-name': c.policyName,
    'kive-policy-namespace': c.policyNamespace,
    timestamp: rfc3339(a.timeNs),
    metadata: {
      path: c.path,
      inode: a.inode,
      mask: kernelBits(a.mask),
      'kernel-id': c.kernelId,
      callback: c.callback,
      device: a.device,
      access: describeMask(a.mask),
      verdict: a.verdict,
      folded: a.folded,
      ...operationKeys(a, c.path),
      ...(c.moved === true && { moved: true }),
    },
    'custom-metadata': c.customMetadata,
    pod: {
      name: c.pod.name,
      namespace: c.pod.namespace,
      ip: c.pod.ip,
      container: { id: c.pod.container.id, name: c.pod.container.name },
    },
    process: {
      pid: a.tid,
      tgid: a.pid,
      uid: a.uid,
      gid: a.gid,
      binary: a.executable,
      cwd: a.cwd,
      arguments: a.arguments,
      ppid: a.ppid,
      comm: a.comm,
      'cgroup-id': a.cgroupId,
      'pid-namespace': a.pidNamespace,
      'mount-namespace': a.mountNamespace,
      truncated: truncatedOf(a),
    },
  };
}

declare global {
  interface JSON {
    /** V8 has it; TypeScript's lib for this target has not. */
    rawJSON(text: string): object;
  }
}

/** The integer after a key, from the raw text: inside a JSON string the key's quote would be escaped. */
function rawInteger(line: string, key: string): bigint {
  return BigInt(new RegExp(`"${key}":(\\d+),`).exec(line)?.[1] ?? -1);
}

suite('AlertEncoder', () => {
  test('writes the documented alert, key by key', () => {
    assert.equal(
      new AlertEncoder(context).encode(access),
      '{"guard":"file-access","kind":"KiveAlert","time":"2026-11-21T10:00:00.123456789Z","node":{"name":"kive-worker"},"severity":"high",' +
        '"object":{"kind":"Pod","namespace":"default","name":"nginx-pod"},' +
        '"policy":{"kind":"KivePolicy","namespace":"kivebpf-system","name":"kive-sample-policy"},"verdict":"allowed",' +
        '"message":"/usr/bin/cat accessed /secret.txt in default/nginx-pod/nginx (read).",' +
        '"kive-alert-version":"v1","kive-policy-name":"kive-sample-policy","kive-policy-namespace":"kivebpf-system",' +
        '"timestamp":"2026-11-21T10:00:00.123456789Z",' +
        '"metadata":{"path":"/secret.txt","inode":16256084,"mask":36,"kernel-id":"2c147a95-23e5-4f99-a2de-67d5e9fdb502",' +
        '"callback":"","device":3,"access":["read"],"verdict":"allowed","folded":0},"custom-metadata":{"severity":"critical"},' +
        '"pod":{"name":"nginx-pod","namespace":"default","ip":"10.244.1.2","container":{"id":"containerd://0c37","name":"nginx"}},' +
        '"process":{"pid":176929,"tgid":176928,"uid":0,"gid":0,"binary":"/usr/bin/cat","cwd":"/",' +
        '"arguments":"/secret.txt -","ppid":1,"comm":"cat","cgroup-id":4711,"pid-namespace":4026531836,' +
        '"mount-namespace":4026531841,"truncated":[]}}',
    );
  });

  test('pid is the thread and tgid the process, as in Kive', () => {
    const alert = JSON.parse(new AlertEncoder(context).encode(access)) as KiveAlert;
    assert.equal(alert.process.pid, access.tid);
    assert.equal(alert.process.tgid, access.pid);
  });

  test('any access: the JSON of the object, with what cannot be seen as escapes, one line, read back as the same object', () => {
    fc.assert(
      fc.property(anyContext, fc.array(anyAccess, { minLength: 1, maxLength: 6 }), (anyC, accesses) => {
        // One encoder for several accesses: what it keeps from one to the next must not show.
        const encoder = new AlertEncoder(anyC);
        for (const a of accesses) {
          const line = encoder.encode(a);
          const expected = plainAlert(anyC, a);
          assert.ok(!line.includes('\n'));
          assertFinding(line);
          assert.equal(
            line,
            visibleJson(
              JSON.stringify(expected, (_key, value: unknown) =>
                typeof value === 'bigint' ? JSON.rawJSON(value.toString()) : value,
              ),
            ),
          );
          assert.doesNotMatch(line, /[\p{Cc}\p{Cf}]/u);
          assert.equal(rawInteger(line, 'inode'), a.inode);
          assert.equal(rawInteger(line, 'cgroup-id'), a.cgroupId);
          assert.deepEqual(JSON.parse(line), {
            ...expected,
            // JSON.parse makes plain objects, fast-check some without a prototype.
            'custom-metadata': { ...anyC.customMetadata },
            metadata: { ...expected.metadata, inode: Number(a.inode) },
            process: { ...expected.process, 'cgroup-id': Number(a.cgroupId) },
          });
        }
      }),
      { numRuns: 2000 },
    );
  });

  test('times: every digit kept, forwards and backwards, across seconds and at the ends of a u64', () => {
    const encoder = new AlertEncoder(context);
    const timestampAt = (timeNs: bigint): string =>
      (JSON.parse(encoder.encode({ ...access, timeNs })) as KiveAlert).timestamp;
    assert.equal(timestampAt(0n), '1970-01-01T00:00:00.000000000Z');
    assert.equal(timestampAt(1_999_999_999n), '1970-01-01T00:00:01.999999999Z');
    assert.equal(timestampAt(2_000_000_000n), '1970-01-01T00:00:02.000000000Z');
    assert.equal(timestampAt(1_000_000_001n), '1970-01-01T00:00:01.000000001Z');
    assert.equal(timestampAt(2n ** 64n - 1n), '2554-07-21T23:34:33.709551615Z');
  });

  test('more masks than it keeps', () => {
    const encoder = new AlertEncoder(context);
    for (let mask = 0; mask < 3000; mask++) {
      const alert = JSON.parse(encoder.encode({ ...access, mask })) as KiveAlert;
      assert.equal(alert.metadata.mask, kernelBits(mask));
      assert.deepEqual(alert.metadata.access, describeMask(mask));
    }
  });
});

test("names within a file system use the mount of the trap's path", () => {
  const renamed = { ...access, from: '/a/f', to: '/b/g', namesOfFileSystem: true };
  assert.deepEqual(namesOf(renamed, '/data/a/f'), { from: '/data/a/f', to: '/data/b/g' });
  assert.deepEqual(namesOf(renamed, '/a/f'), { from: '/a/f', to: '/b/g' });
  // By another name of the file, or a link to it.
  assert.deepEqual(namesOf(renamed, '/link'), { from: '/a/f', to: '/b/g' });
  assert.deepEqual(namesOf({ ...renamed, namesOfFileSystem: false }, '/data/a/f'), {
    from: '/a/f',
    to: '/b/g',
  });
});
