/**
 * The texts that each format accepts: kube-openapi `pkg/validation/strfmt/default.go`, `date.go`,
 * `duration.go` and their tests.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { formatCheck, parseDuration } from './formats.ts';

const cases: Readonly<Record<string, readonly [valid: readonly string[], invalid: readonly string[]]>> = {
  'date-time': [
    ['2024-02-29T23:59:59Z', '2024-01-01t00:00:00.123+02:00', '2016-12-31T23:59:60Z'],
    [
      '2023-02-29T00:00:00Z',
      '2024-01-01',
      '2024-01-01T24:00:00Z',
      '2024-01-01T00:00:00',
      '2024-13-01T00:00:00Z',
    ],
  ],
  date: [['2024-02-29'], ['2024-02-30', '2024-2-1', '1900-02-29']],
  duration: [
    ['1h30m', '-2.5s', '300ms', '2 days', '1w', '0', '1us', '3 hours'],
    ['', '1', 'h', '1x', '1h 30m', '1'.repeat(300)],
  ],
  ipv4: [['127.0.0.1'], ['127.0.0.256', '::1', '1.2.3']],
  ipv6: [
    ['::1', '2001:db8::1', '::ffff:1.2.3.4'],
    ['127.0.0.1', 'fe80::1%eth0', ':::'],
  ],
  cidr: [
    ['10.0.0.0/8', '::/0', '10.1.2.3/32'],
    ['10.0.0.0', '10.0.0.0/33', '::/129', '10.0.0.0/08', 'a/8'],
  ],
  mac: [
    ['01:02:03:04:05:06', '01-02-03-04-05-06', '0102.0304.0506', '01:02:03:04:05:06:07:08'],
    ['01:02:03:04:05', '01:02:03:04:05:0g', '0102030405060708'],
  ],
  uri: [
    ['https://example.com/a?b=c', '/path', 'mailto:a@b.c', 'http://[::1]:80/'],
    ['example.com', 'http://a b', 'http://a:port/', '%zz', ''],
  ],
  email: [
    ['a@example.com', 'A B <a.b@example.com>', 'é@ü.de'],
    ['a', '@b', 'a@', 'a..b@c.de', 'a b@c.de'],
  ],
  hostname: [
    ['example.com', 'a', '123', 'xn--p1ai.ru', 'a-b.co'],
    ['-a', 'a-', 'a..b', '', 'a_b', 'x'.repeat(64)],
  ],
  uuid: [
    ['123e4567-e89b-12d3-a456-426614174000', '123E4567E89B12D3A456426614174000'],
    ['123e4567-e89b-12d3-a456-42661417400', 'g23e4567-e89b-12d3-a456-426614174000'],
  ],
  uuid3: [['123e4567-e89b-32d3-a456-426614174000'], ['123e4567-e89b-42d3-a456-426614174000']],
  uuid4: [['123e4567-e89b-42d3-a456-426614174000'], ['123e4567-e89b-42d3-7456-426614174000']],
  uuid5: [['123e4567-e89b-52d3-a456-426614174000'], ['123e4567-e89b-32d3-a456-426614174000']],
  byte: [['aGVsbG8='], ['aGVsbG8', 'a', '====', '']],
  password: [['', 'anything'], []],
  'k8s-short-name': [['a-b'], ['A', 'a.b', 'a-', 'x'.repeat(64)]],
  'k8s-long-name': [['a.b-c'], ['a..b', 'A.b', 'x'.repeat(254)]],
};

for (const [format, [valid, invalid]] of Object.entries(cases)) {
  test(`format ${format}`, () => {
    const check = formatCheck(format);
    assert.ok(check);
    for (const text of valid) assert.ok(check(text), `valid: ${text}`);
    for (const text of invalid) assert.ok(!check(text), `invalid: ${text}`);
  });
}

test('other formats are not checked', () => {
  for (const format of ['int32', 'int64', 'float', 'isbn', 'shoe-size', 'constructor', 'toString', '']) {
    assert.equal(formatCheck(format), undefined);
  }
});

test('durations in nanoseconds', () => {
  assert.equal(parseDuration('1h2m3.5s'), 3_723_500_000_000);
  assert.equal(parseDuration('-1.5ms'), -1_500_000);
  assert.equal(parseDuration('2 weeks'), 1_209_600_000_000_000);
});
