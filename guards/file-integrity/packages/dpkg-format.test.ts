import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as fc from '../../../lib/testing/fast-check.fixture.ts';
import { readDiversions, readList, readStatus, readSums } from './dpkg-format.ts';

const sum = 'cc3493ecd2d09837ffdcc3e25fdfff18';

test('status: unpacked packages, with the names of their files and their conffiles', () => {
  const text = `Package: adduser
Status: install ok installed
Architecture: all
Multi-Arch: foreign
Version: 3.134
Conffiles:
 /etc/adduser.conf ${sum}
 /etc/old file ${sum} obsolete
 /etc/new newconffile
 /etc/both ${sum} obsolete remove-on-upgrade
Description: add users
 Version: 9

Package: libc6
Status: install ok half-configured
Architecture: amd64
Multi-Arch: same
Version: 2.36-9

Package: gone
Status: deinstall ok config-files
Version: 1

Package: half
Status: install reinstreq half-installed
Version: 1

Version: 1
`;
  assert.deepEqual(
    [...readStatus(text).values()],
    [
      {
        ...{ name: 'adduser', infoName: 'adduser', version: '3.134' },
        conffiles: new Map(['/etc/adduser.conf', '/etc/old file', '/etc/both'].map((path) => [path, sum])),
      },
      { name: 'libc6', infoName: 'libc6:amd64', version: '2.36-9', conffiles: new Map() },
    ],
  );
});

test('checksums, lists, diversions', () => {
  assert.deepEqual(
    [...readSums(`${sum}  usr/bin/a b\n${sum} *lib/x\n${sum}\nno\n`)],
    [
      ['/usr/bin/a b', sum],
      ['/lib/x', sum],
    ],
  );
  assert.deepEqual(readList('/.\n/usr\n/usr/a\n\nx\n'), ['/usr', '/usr/a']);
  assert.deepEqual(readDiversions('/bin/sh\n/bin/sh.distrib\ndash\n/cut\n'), [
    { from: '/bin/sh', to: '/bin/sh.distrib', by: 'dash' },
  ]);
});

test('reading ends for any content of these files', () => {
  const anyText = fc.string({
    unit: fc.constantFrom(...'Package: Version/\n ab0'.split('')),
    maxLength: 300,
  });
  fc.assert(
    fc.property(anyText, (text) => {
      for (const read of [readStatus, readSums, readList, readDiversions]) read(text);
    }),
    { numRuns: 50 },
  );
});
