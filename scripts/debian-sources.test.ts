import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';

import {
  findMainArchive,
  mainArchive,
  parseDeb822,
  parseOneLine,
  releaseStanzas,
  stanzaFor,
} from './debian-sources.ts';

const plain = { signedBy: undefined, checkValidUntil: undefined };

describe('deb822', () => {
  test('fields, comments, several values, an inline key', () => {
    const key = '\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc\n -----END PGP PUBLIC KEY BLOCK-----';
    const sources = parseDeb822(
      `# a comment
Types: deb deb-src
# another: comment
URIs: http://a.example/debian http://b.example/debian
Suites: bookworm
 bookworm-updates
components: main contrib
Check-Valid-Until: no
Signed-By:${key}
`,
    );
    const rest = {
      suites: ['bookworm', 'bookworm-updates'],
      components: ['main', 'contrib'],
      checkValidUntil: 'no',
      signedBy: key,
    };
    assert.deepEqual(sources, [
      { uri: 'http://a.example/debian', ...rest },
      { uri: 'http://b.example/debian', ...rest },
    ]);
    // The key comes out as it went in.
    const stanza = stanzaFor({ ...rest, uri: 'http://a.example/debian' }, 'trixie');
    assert.deepEqual(parseDeb822(stanza)[0]?.signedBy?.trim(), key.trim());
    assert.match(stanza, /^Suites: trixie$/m);
    assert.match(stanza, /^Check-Valid-Until: no$/m);
  });

  test('source packages and disabled entries are left out', () => {
    const entry = 'URIs: http://a.example\nSuites: bookworm\nComponents: main\n';
    assert.deepEqual(parseDeb822(`Types: deb-src\n${entry}`), []);
    assert.deepEqual(parseDeb822(`Types: deb\nEnabled: no\n${entry}`), []);
    assert.equal(parseDeb822(`Types: deb-src\n${entry}\n \nTypes: deb\r\n${entry}`).length, 1);
  });
});

test('the one-line format', () => {
  const sources = parseOneLine(`# deb http://off.example bookworm main
deb-src http://a.example bookworm main
deb http://a.example/debian bookworm main contrib # why
  deb [ arch=amd64 signed-by=/k1.gpg,/k2.gpg check-valid-until=no ] http://b.example bookworm main
`);
  assert.deepEqual(sources, [
    { uri: 'http://a.example/debian', suites: ['bookworm'], components: ['main', 'contrib'], ...plain },
    {
      uri: 'http://b.example',
      suites: ['bookworm'],
      components: ['main'],
      signedBy: '/k1.gpg /k2.gpg',
      checkValidUntil: 'no',
    },
  ]);
});

test('the main archive is distinguished from others with the same suite', () => {
  const security = parseOneLine('deb http://a.example/security bookworm-security main');
  const other = parseOneLine('deb [signed-by=/k/other.gpg] http://other.example bookworm main');
  const stable = parseOneLine('deb http://other.example/linux bookworm stable');
  const debian = parseOneLine('deb [signed-by=/k/debian-archive-keyring.gpg] http://d.example bookworm main');
  assert.equal(
    mainArchive([...security, ...stable, ...other, ...debian], 'bookworm')?.uri,
    'http://d.example',
  );
  assert.equal(mainArchive([...security, ...other], 'bookworm')?.uri, 'http://other.example');
  assert.equal(mainArchive([...security, ...stable], 'bookworm'), undefined);
});

test("this machine's files: the release decides, what is not Debian is refused", () => {
  const etc = mkdtempSync(join(tmpdir(), 'rampart-etc-'));
  try {
    assert.throws(() => findMainArchive(etc), { code: 'RAMPART_UNSUPPORTED' });
    writeFileSync(join(etc, 'os-release'), 'ID=debian\nVERSION_CODENAME=bookworm\n');
    assert.throws(() => findMainArchive(etc), { code: 'RAMPART_UNSUPPORTED', message: /bookworm/ });
    mkdirSync(join(etc, 'apt/sources.list.d'), { recursive: true });
    const lists = join(etc, 'apt/sources.list.d');
    writeFileSync(
      join(lists, 'x.sources.disabled'),
      'Types: deb\nURIs: http://no.example\nSuites: bookworm\n',
    );
    writeFileSync(
      join(lists, 'debian.sources'),
      'Types: deb\nURIs: http://d.example\nSuites: bookworm\nComponents: main\n',
    );
    assert.equal(findMainArchive(etc).uri, 'http://d.example');
    writeFileSync(join(etc, 'apt/sources.list'), 'deb http://first.example bookworm main\n');
    assert.equal(findMainArchive(etc).uri, 'http://first.example');
    const suitesOf = (release: string): string[] =>
      [...releaseStanzas(release, 'amd64', etc).matchAll(/^Suites: (.*)$/gm)].map(([, suite = '']) => suite);
    assert.deepEqual(suitesOf('bookworm'), ['bookworm', 'bookworm']);
    writeFileSync(
      join(etc, 'apt/sources.list'),
      ['bookworm', 'bookworm-updates', 'bookworm-security', 'bookworm-backports']
        .map((suite) => `deb [signed-by=/k/debian-archive-keyring.gpg] http://d.example ${suite} main\n`)
        .join(''),
    );
    // The other list, which others may have signed, is left out.
    assert.deepEqual(suitesOf('trixie'), ['trixie', 'trixie-updates', 'trixie-security']);
    writeFileSync(join(etc, 'os-release'), 'ID=ubuntu\nVERSION_CODENAME="noble"\n');
    assert.throws(() => findMainArchive(etc), { code: 'RAMPART_UNSUPPORTED' });
  } finally {
    rmSync(etc, { recursive: true });
  }
});
