import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { proxiesOf, proxyFor } from './proxy.ts';

const settings = { http: 'plain.example:3128', https: 'http://user:word@secure.example:3129' };

function through(url: string, none = ''): string | undefined {
  return proxyFor(new URL(url), { ...settings, none })?.host;
}

suite('proxies', () => {
  test('by the scheme of the request', () => {
    assert.equal(through('https://registry.example/v2/'), 'secure.example:3129');
    assert.equal(through('http://registry.example/v2/'), 'plain.example:3128');
    assert.equal(proxyFor(new URL('https://registry.example/'), { http: 'plain.example:3128' }), undefined);
    for (const host of ['localhost', '127.0.0.1', '[::1]:5000'])
      assert.equal(through(`http://${host}/`), undefined);
  });

  test('calls the hosts in NO_PROXY directly', () => {
    const cases: readonly (readonly [none: string, direct: readonly string[], others: readonly string[]])[] =
      [
        ['*', ['registry.example', '10.1.2.3'], []],
        [
          'example.com',
          ['example.com', 'a.example.com', 'EXAMPLE.com'],
          ['anexample.com', 'example.com.org'],
        ],
        ['.example.com', ['a.example.com'], ['example.com']],
        ['*.example.com', ['a.b.example.com'], ['example.com']],
        ['a.example:5000', ['a.example:5000'], ['a.example', 'a.example:5001']],
        ['10.0.0.0/8, fd00::/8', ['10.1.2.3:443', '[fd00::1]'], ['11.0.0.1', '[fe00::1]', 'ten.example']],
        ['10.1.2.3', ['10.1.2.3'], ['10.1.2.30']],
        [' , x/8, /', [], ['registry.example', '10.1.2.3']],
      ];
    for (const [none, direct, others] of cases) {
      for (const host of direct)
        assert.equal(through(`https://${host}/`, none), undefined, `${none} ${host}`);
      for (const host of others)
        assert.equal(through(`https://${host}/`, none), 'secure.example:3129', `${none} ${host}`);
    }
  });

  test('a proxy from the environment; an invalid one is reported without its password', () => {
    assert.deepEqual(proxiesOf({ https_proxy: 'a', HTTPS_PROXY: 'b', no_proxy: 'c', HTTP_PROXY: '' }), {
      ...{ http: undefined, https: 'b', none: 'c' },
    });
    for (const https of ['socks5://user:word@proxy:1080', 'http://user:word@'])
      assert.throws(
        () => proxyFor(new URL('https://registry.example/'), { https }),
        (error: Error) => /proxy cannot be used/.test(error.message) && !error.message.includes('word'),
      );
  });
});
