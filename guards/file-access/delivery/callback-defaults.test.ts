import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { RampartError } from '../../../lib/errors/errors.ts';
import { callbackDefault, parseCallbackDefaults } from './callback-defaults.ts';

suite('Secrets of the configuration', () => {
  const defaults = parseCallbackDefaults([
    'https://alerts.example=ops/alerts',
    'https://Alerts.Example:8443/=ops/other-port',
    'https://[fd00::1]:444=ops/six',
    'ops/authority',
  ]);

  for (const [callback, secret] of [
    ['https://alerts.example/in', 'ops/alerts'],
    ['https://alerts.example:443/', 'ops/alerts'],
    ['HTTPS://ALERTS.example/?a=b', 'ops/alerts'],
    ['https://alerts.example:8443/x', 'ops/other-port'],
    ['https://[fd00:0::1]:444/', 'ops/six'],
    // A URL that only resembles the origin gets no secret.
    ['https://alerts.example.evil.example/', 'ops/authority'],
    ['https://alerts.example@evil.example/', 'ops/authority'],
    ['https://alerts.example:8444/', 'ops/authority'],
    ['https://sub.alerts.example/', 'ops/authority'],
    ['http://alerts.example/', undefined],
    ['http://alerts.example:443/', undefined],
    ['nonsense', undefined],
  ] as const) {
    test(`${callback} -> ${secret}`, () => {
      const found = callbackDefault(defaults, callback);
      assert.equal(found?.secret, secret);
      assert.equal(found?.origin === undefined, secret === undefined || secret === 'ops/authority');
    });
  }

  test('without defaults there is no callback', () =>
    assert.equal(callbackDefault([], 'https://a/'), undefined));

  for (const text of [
    '',
    'name',
    'ops/',
    '/name',
    'a/b/c',
    'Ops/name',
    '=ops/name',
    'http://a=ops/name',
    'https://a/path=ops/name',
    'https://a?b=ops/name',
    'https://a#=ops/name',
    'https://user@a=ops/name',
    'https://user:password@a=ops/name',
    'https://=ops/name',
    'a.example=ops/name',
    'https://a',
  ]) {
    test(`refused: ${JSON.stringify(text)}`, () => {
      assert.throws(
        () => parseCallbackDefaults([text]),
        (error) =>
          error instanceof RampartError && error.code === 'RAMPART_INPUT' && !/password/.test(error.message),
      );
    });
  }

  test('refused: two for one origin, however it is written', () => {
    assert.throws(
      () => parseCallbackDefaults(['https://a=b/c', 'https://A:443=b/d']),
      /two Secrets for https:\/\/a/,
    );
    assert.throws(() => parseCallbackDefaults(['b/c', 'b/d']), /two Secrets for all callbacks/);
  });
});
