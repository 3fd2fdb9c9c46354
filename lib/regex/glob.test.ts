import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import * as fc from '../testing/fast-check.fixture.ts';
import { nameGlob, pathGlob } from './glob.ts';

suite('globs', () => {
  for (const [glob, fits, others] of [
    ['nginx', ['nginx'], ['nginx-1', 'Nginx', '']],
    ['nginx-*', ['nginx-', 'nginx-1', 'nginx-a-b'], ['nginx', 'xnginx-1']],
    ['web-?', ['web-1', 'web-é'], ['web-', 'web-10']],
    ['{web,api}-[0-2]', ['web-0', 'api-2'], ['db-0', 'web-3']],
    ['[!a-c]x', ['dx'], ['ax', 'x']],
    ['a.b', ['a.b'], ['axb']],
    ['a\\*', ['a*'], ['ab']],
    ['*', ['', 'x', 'a/b'], []],
  ] as const) {
    test(`a glob over names: ${glob}`, () => {
      const fit = nameGlob(glob, '--pod');
      assert.deepEqual([...fits, ...others].filter(fit), [...fits]);
    });
  }

  for (const [glob, fits, others] of [
    ['/etc/shadow', ['/etc/shadow'], ['/etc/shadow-', '/a/etc/shadow', '/etc//shadow']],
    ['/etc/*', ['/etc/shadow', '/etc/.pwd.lock'], ['/etc/ssl/key', '/etc', '/etc2/a']],
    ['/etc/**', ['/etc/shadow', '/etc/ssl/key', '/etc/'], ['/etc', '/etcetera']],
    ['/**/token', ['/token', '/var/token', '/var/run/x/token'], ['/var/tokens', '/var/mytoken']],
    ['/var/**/s/*', ['/var/s/a', '/var/x/y/s/a'], ['/var/xs/a', '/var/s/a/b']],
    ['shadow', ['/etc/shadow', '/shadow'], ['/etc/shadow-', '/etc/xshadow', '/shadow/a']],
    ['*.key', ['/a/b/c.key', '/.key'], ['/a.key/b']],
    ['/a[!x]b', ['/ayb'], ['/axb', '/a/b']],
    ['/etc/{passwd,ssl/*}', ['/etc/passwd', '/etc/ssl/a'], ['/etc/ssl/a/b']],
    ['/a**b', ['/ab', '/axyb', '/a/x/b'], ['/a']],
  ] as const) {
    test(`a glob over paths: ${glob}`, () => {
      const fit = pathGlob(glob, '--path');
      assert.deepEqual([...fits, ...others].filter(fit), [...fits]);
    });
  }

  test('an invalid glob is refused, with its text', () => {
    for (const [glob, pattern] of [
      ['', /--path "" is invalid: it is empty/],
      ['[a', /--path "\[a" is invalid: a \[ has no matching \]/],
      ['{a', /a { has no matching }/],
      ['a\\', /ends with a \\/],
      ['/[b-a]', /is invalid/],
    ] as const) {
      assert.throws(() => pathGlob(glob, '--path'), { code: 'RAMPART_INPUT', message: pattern });
    }
  });

  test('any text with what is special escaped fits itself and nothing else', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (text, other) => {
        fc.pre(text !== '');
        const glob = text.replace(/[*?[\]{},\\]/g, '\\$&');
        assert.equal(nameGlob(glob, '--pod')(text), true);
        assert.equal(nameGlob(glob, '--pod')(other), other === text);
        assert.equal(pathGlob(`/${glob}`, '--path')(`/${text}`), true);
      }),
    );
  });
});
