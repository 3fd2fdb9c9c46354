import assert from 'node:assert/strict';
import { test } from 'node:test';

import { parseAddress } from './address.ts';

test('host and port', () => {
  assert.deepEqual(parseAddress('127.0.0.1:7443'), { host: '127.0.0.1', port: 7443 });
  assert.deepEqual(parseAddress('[::1]:0'), { host: '::1', port: 0 });
  assert.deepEqual(parseAddress('a-name.example:65535'), { host: 'a-name.example', port: 65_535 });
});

test('a port alone is accepted only if there is a default host', () => {
  assert.equal(parseAddress('9090'), undefined);
  for (const port of ['9090', 9090]) {
    assert.deepEqual(parseAddress(port, '127.0.0.1'), { host: '127.0.0.1', port: 9090 });
  }
  assert.deepEqual(parseAddress('::1'), undefined);
});

const wrong = [
  '',
  ':9090',
  '127.0.0.1',
  '127.0.0.1:',
  '127.0.0.1:65536',
  '127.0.0.1:-1',
  '127.0.0.1:1e3',
  '::1:9090',
  '[::1:9090',
  '[name]:9090',
  'a b:9090',
  ' 127.0.0.1:9090',
  'http://127.0.0.1:9090',
  1.5,
  -1,
  70_000,
];
for (const address of wrong) {
  test(`not an address: ${JSON.stringify(address)}`, () => {
    assert.equal(parseAddress(address), undefined);
    assert.equal(parseAddress(address, '127.0.0.1'), undefined);
  });
}
