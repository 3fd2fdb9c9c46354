/**
 * AIDE's messages about files that it could not read, in the words of both versions (their src/, and runs
 * without CAP_DAC_OVERRIDE).
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { isAtOrBelowAny } from '../model/entry.ts';
import { unreadOf, withUnread } from './unread.ts';
import type { Report } from '../model/report.ts';

const path = "/t/it's (a) 'file': x";
const denied = 'Permission denied';
const sentences: readonly (readonly [code: string, said: string])[] = [
  // 0.18.3.
  ['EACCES', `opendir() failed for '${path}' (fullpath: '${path}'): ${denied}`],
  ['EACCES', `hash calculation: open() failed for ${path}: ${denied} (hashsums could not be calculated)`],
  ['EIO', `hash calculation: update_md() failed for '${path}' (hashsums could not be calculated)`],
  ['EACCES', `readlink() failed for '${path}': ${denied}`],
  // 0.19.1.
  ['EACCES', `failed to access '${path}': ${denied} (skipping)`],
  ['EIO', `fstat() failed for ${path}: Input/output error (skipping)`],
  [
    'EACCES',
    `failed to open regular file '${path}' for reading: open() failed: ${denied} (disabling attrs requiring read permissions: sha256+e2fsattrs)`,
  ],
  [
    'EACCES',
    `failed to open directory '${path}' for reading: open() failed: ${denied} (skipping recursion, disabling attrs requiring read permissions: e2fsattrs)`,
  ],
  [
    'CHANGED',
    `failed to open regular file '${path}' for reading: stat fields changed: i+m (disabling attrs requiring read permissions: sha256)`,
  ],
  [
    'EMFILE',
    `failed to open directory '${path}' for reading directory contents: Too many open files (skipping recursion)`,
  ],
  ['EMFILE', `'${path}': failed to duplicate file descriptor: Too many open files`],
  [
    'EIO',
    `hash calculation: failed to read file content of '${path}': Input/output error (hashsums could not be calculated)`,
  ],
  [
    'EIO',
    `hash calculation: lseek() failed to failed for '${path}': Input/output error (hashsum could not be calculated)`,
  ],
  [
    'EIO',
    `hash calculation: fstat() failed for '${path}': Input/output error (hashsums could not be calculated)`,
  ],
  [
    'CHANGED',
    `'${path}' has changed (changed fields: s+m, increased size) during hash calculation, was file growing while AIDE was running? (consider adding 'growing' attribute) (discarding calculated hashsums)`,
  ],
  ['EIO', `acl_get_fd() failed to get ACL for '${path}': Input/output error (disabling acl attribute)`],
  ['EIO', `failed to get default ACL for directory '${path}': Input/output error (disabling acl attribute)`],
  [
    'EIO',
    `listxattr() failed to get list of extended attribute names for '${path}': Input/output error (disabling xattr attribute)`,
  ],
  [
    'EIO',
    `lgetxattr() failed to get value of extended attribute 'user.x' for '${path}': Input/output error (discarding extended attribute)`,
  ],
  [
    'EIO',
    `fgetfilecon_raw() failed to get SELinux security context for '${path}': Input/output error (disabling selinux attribute)`,
  ],
  [
    'EIO',
    `fgetflags() failed to get file attributes for '${path}': Input/output error (disabling e2fsattrs attribute)`,
  ],
  [
    'EIO',
    `cap_get_fd() failed to get capability state for '${path}': Input/output error (disabling caps attribute)`,
  ],
  [
    'EIO',
    `cap_to_text() failed to get textual representation for capability state of '${path}': Input/output error (disabling caps attribute)`,
  ],
];

suite('lists files that AIDE could not read', () => {
  for (const [code, said] of sentences) {
    test(said.replaceAll(path, 'X').slice(0, 90), () => {
      const found = unreadOf(`  WARNING: ${said}\n`, (each) => `/hostroot${each}`);
      assert.deepEqual(
        found.map((each) => [each.code, each.path]),
        [[code, `/hostroot${path}`]],
      );
    });
  }

  test('deleted files and other messages are not problems; control characters are read', () => {
    const same = (each: string): string => each;
    const others = [
      "WARNING: failed to access '/t/gone': No such file or directory (skipping)",
      'Entry /t/b in databases has different attributes: -sha256',
      'WARNING: input and output database URLs are the same',
    ];
    assert.deepEqual(unreadOf(others.join('\n'), same), []);
    const [found] = unreadOf(`WARNING: failed to access '/t/a\\012\\033': ${denied} (skipping)`, same);
    assert.equal(found?.path, '/t/a\n\x1b');
  });

  test('an unreadable path is not removed, nor is anything below it', () => {
    const change = { summary: '', type: undefined, details: [] };
    const removed = (of: string) => ({ ...change, kind: 'removed' as const, path: of });
    const report: Report = {
      counts: { total: 9, added: 0, removed: 4, changed: 0, problems: 0 },
      changes: ['/a', '/a/b', '/ab', '/c'].map(removed),
      ...{ redefined: [], problems: [], omitted: 0 },
    };
    const after = withUnread(report, [{ path: '/a', code: 'EACCES', message: '' }]);
    assert.deepEqual(
      after.changes.map((each) => each.path),
      ['/ab', '/c'],
    );
    assert.deepEqual(after.counts, { total: 9, added: 0, removed: 2, changed: 0, problems: 1 });
    assert.equal(isAtOrBelowAny('/x', new Set(['/'])), true);
    assert.equal(isAtOrBelowAny('/', new Set(['/a'])), false);
  });
});
