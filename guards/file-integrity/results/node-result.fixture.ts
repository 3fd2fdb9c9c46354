/** Results of any content that an agent may have. */

import * as fc from '../../../lib/testing/fast-check.fixture.ts';
import type { ChangeAuthor, Detection, Finding, Unread } from '../model/finding.ts';
import { maxUnreadFiles, type NodeOutcome, type NodeResult } from './node-result.ts';

const text = fc.string({ unit: 'grapheme', maxLength: 30 });
const count = fc.nat(1_000_000);
const label = fc.stringMatching(/^[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?$/);
const timeMs = fc.integer({ min: 0, max: Date.UTC(2100, 0) });

const author: fc.Arbitrary<ChangeAuthor> = fc.record(
  {
    binary: text,
    arguments: text,
    cwd: text,
    uid: count,
    gid: count,
    pid: count,
    ppid: count,
    parentBinary: text,
    relation: fc.constantFrom('host' as const, 'container' as const, 'unknown' as const),
    container: fc.record({ id: text, name: text }, { noNullPrototype: true }),
    pod: fc.record({ namespace: label, name: label }, { noNullPrototype: true }),
    unit: text,
    mounts: fc.constant('own' as const),
  },
  {
    noNullPrototype: true,
    requiredKeys: ['binary', 'arguments', 'cwd', 'uid', 'gid', 'pid', 'ppid', 'parentBinary', 'relation'],
  },
);

const finding: fc.Arbitrary<Finding> = fc.record(
  {
    path: text.map((name) => `/${name}`),
    change: fc.constantFrom('added' as const, 'removed' as const, 'changed' as const),
    attributes: fc.array(text, { maxLength: 3 }),
    seenMs: timeMs,
    seenBy: fc.constantFrom('event' as const, 'scan' as const),
    author,
    last: fc.record(
      { seenMs: timeMs, seenBy: fc.constantFrom('event' as const, 'scan' as const), author },
      { noNullPrototype: true, requiredKeys: ['seenMs', 'seenBy'] },
    ),
    explained: text,
  },
  { noNullPrototype: true, requiredKeys: ['path', 'change', 'attributes', 'seenMs', 'seenBy'] },
);

const detection: fc.Arbitrary<Detection> = fc.record(
  {
    events: fc.constantFrom('sensor' as const, 'inotify' as const, 'none' as const),
    reason: text,
    watchedDirectories: count,
    unwatchedDirectories: count,
    lostEvents: count,
    lostAuthors: count,
    directoriesWithoutAuthors: count,
    packagesReason: text,
  },
  {
    noNullPrototype: true,
    requiredKeys: [
      ...(['events', 'reason', 'watchedDirectories', 'unwatchedDirectories'] as const),
      ...(['lostEvents', 'lostAuthors', 'directoriesWithoutAuthors'] as const),
    ],
  },
);

const unread: fc.Arbitrary<Unread> = fc.record(
  {
    count,
    files: fc.array(fc.record({ path: text, reason: text }, { noNullPrototype: true }), {
      maxLength: maxUnreadFiles,
    }),
  },
  { noNullPrototype: true },
);

function outcomes(kind: NodeOutcome['kind'] | undefined): fc.Arbitrary<NodeOutcome> {
  const log = fc.record(
    { data: text, compressed: fc.boolean(), tooLarge: fc.boolean() },
    { noNullPrototype: true },
  );
  const all = {
    succeeded: fc.constant({ kind: 'succeeded' } as const),
    failed: fc.record(
      { kind: fc.constant('failed' as const), added: count, changed: count, removed: count, log },
      { noNullPrototype: true },
    ),
    errored: fc.record(
      { kind: fc.constant('errored' as const), message: text, reason: text },
      { noNullPrototype: true, requiredKeys: ['kind', 'message'] },
    ),
  };
  return kind === undefined ? fc.oneof(all.succeeded, all.failed, all.errored) : all[kind];
}

/** @param of only with this outcome */
export function anyResult(of: { readonly kind?: NodeOutcome['kind'] } = {}): fc.Arbitrary<NodeResult> {
  return fc.record(
    {
      fileIntegrity: fc.record({ namespace: label, name: label }, { noNullPrototype: true }),
      nodeName: label,
      sequence: fc.maxSafeNat(),
      atMs: timeMs,
      outcome: outcomes(of.kind),
      findings: fc.array(finding, { maxLength: 5 }),
      omittedFindings: count,
      unread,
      reading: fc.record(
        { count, files: fc.array(text, { maxLength: maxUnreadFiles }) },
        { noNullPrototype: true },
      ),
      updates: fc.array(
        fc.record(
          { update: text, files: count, atMs: timeMs, accepted: fc.boolean() },
          { noNullPrototype: true },
        ),
        { minLength: 1, maxLength: 3 },
      ),
      detection,
      doneRequests: fc.array(fc.stringMatching(/^[0-9a-f]{1,16}$/), { maxLength: 5 }),
      continuedFromMs: timeMs,
      configuration: label,
      baseline: fc.record(
        {
          provider: fc.constantFrom('native' as const, 'aide' as const),
          digest: fc.stringMatching(/^[0-9a-f]{64}$/),
          madeAtMs: timeMs,
        },
        { noNullPrototype: true },
      ),
    },
    {
      noNullPrototype: true,
      requiredKeys: [
        ...(['fileIntegrity', 'nodeName', 'sequence', 'atMs', 'outcome', 'findings'] as const),
        ...(['omittedFindings', 'detection', 'doneRequests'] as const),
      ],
    },
  );
}
