// The reported mask of each operation: real commands in a real container, one file for each.
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';

import type { KiveAlert } from '../../../guards/file-access/alert/alert.ts';
import type { OperationWord } from '../../../lib/sensor/access.ts';
import type { GuardedLab } from '../guarded-lab.fixture.ts';
import type { LabContainer } from '../lab.ts';

interface Operation {
  readonly what: string;
  /** `F` is the file, which nothing else is done to. */
  readonly command: string;
  /** The action before the file is watched. Default: it is written. */
  readonly prepare?: string;
  /** The MAY_* bits that inode_permission is asked with, and operations, in their order. */
  readonly masks: readonly (number | OperationWord)[];
  /** In mode raw_tracepoint, where only what comes to a descriptor is seen. Default: the same. */
  readonly seen?: readonly (number | OperationWord)[];
}

const write = 'echo text > F';
const operations: readonly Operation[] = [
  { what: 'cat', command: 'cat F', masks: [36] },
  { what: 'cat of a hard link', prepare: `${write}; ln F F.other`, command: 'cat F.other', masks: [36] },
  {
    what: 'cat of a symbolic link',
    prepare: `${write}; ln -s F F.other`,
    command: 'cat F.other',
    masks: [36],
  },
  { what: '>', command: 'echo x > F', masks: [34] },
  {
    what: '> through a hard link',
    prepare: `${write}; ln F F.other`,
    command: 'echo x > F.other',
    masks: [34],
  },
  { what: 'truncate', command: 'truncate -s 0 F', masks: [34] },
  { what: '>>', command: 'echo x >> F', masks: [42] },
  { what: '<>', command: ': <> F', masks: [38] },
  { what: 'two of them', command: 'cat F; echo x >> F', masks: [36, 42] },
  // busybox does what it is called as.
  { what: 'exec', prepare: 'cp /bin/busybox F', command: 'exec -a true F', masks: [33] },
  { what: 'ln', command: 'ln F F.other', masks: [6], seen: [] },
  { what: 'rm', command: 'rm F', masks: [18, 'delete'], seen: ['delete'] },
  {
    what: 'mv over it',
    prepare: `${write}; cp F F.other`,
    command: 'mv F.other F',
    masks: [18, 'replace'],
    seen: ['replace'],
  },
  { what: 'test -r', command: '[ -r F ]', masks: [20], seen: [] },
  { what: 'mv to a new name', command: 'mv F F.other', masks: ['rename'] },
  { what: 'stat', command: 'stat F', masks: [] },
  { what: 'chmod', command: 'chmod 600 F', masks: ['attributes'] },
  { what: 'chown', command: 'chown 1:1 F', masks: ['attributes'] },
  { what: 'touch', command: 'touch -c -d @0 F', masks: ['attributes'] },
  { what: 'ls', command: 'ls -l F', masks: [] },
];
const fileOf = (index: number): string => `/mnt/file-${index}`;
const withFile = (command: string, index: number): string => command.replaceAll('F', fileOf(index));

export function maskCases(lab: () => GuardedLab): void {
  suite('the mask of', () => {
    let guarded: GuardedLab;
    let container: LabContainer;
    let alerts: KiveAlert[];
    before(async () => {
      guarded = lab();
      ({ container } = await guarded.run({ name: 'masks' }));
      await guarded.sh(
        container,
        operations.map(({ prepare = write }, index) => withFile(prepare, index)).join('\n'),
      );
      const matchAny = [{ pod: 'masks' }];
      await guarded.setPolicy(
        'masks',
        operations.map((_, index) => ({ path: fileOf(index), matchAny })),
      );
      await guarded.dataCount('masks', operations.length);
      // All at once: the path identifies the operation of an alert. Each has a shell of its own, since one of
      // them ends it.
      alerts = await guarded.alertsOf(async () => {
        const commands = operations.map(({ command }, index) => `( ${withFile(command, index)} )`);
        await guarded.sh(container, ['set -e', ...commands].join('\n'));
      });
    });
    test('nothing else is reported', () => {
      const files = new Set(operations.map((_, index) => fileOf(index)));
      assert.deepEqual(
        alerts.filter(({ metadata }) => !files.has(metadata.path)),
        [],
      );
    });
    after(async () => await guarded?.deletePolicy('masks'));

    operations.forEach(({ what, masks, seen = masks }, index) => {
      test(`${what}: ${masks.join(' ') || 'none'}`, () => {
        assert.deepEqual(
          alerts
            .filter(({ metadata }) => metadata.path === fileOf(index))
            .map(({ metadata }) => metadata.operation ?? metadata.mask),
          guarded.mode === 'raw_tracepoint' ? seen : masks,
        );
      });
    });
  });
}
