import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { errorCodes, RampartError } from '../errors/errors.ts';
import { otlpTarget } from './target.ts';

const OTLP = 'OTEL_EXPORTER_OTLP_';
const withPrefix = (variables: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(variables).map(([name, value]) => [`${OTLP}${name}`, value]));
const urlOf = (
  endpoint: string | undefined,
  variables: Readonly<Record<string, string>>,
): string | undefined => otlpTarget(endpoint, withPrefix(variables))?.url.href;

suite('where logs are sent', () => {
  for (const [endpoint, variables, url] of [
    [undefined, {}, undefined],
    [undefined, { ENDPOINT: '', LOGS_ENDPOINT: ' ' }, undefined],
    ['http://collector:4318', {}, 'http://collector:4318/v1/logs'],
    ['http://collector:4318/', {}, 'http://collector:4318/v1/logs'],
    ['https://loki.example/otlp/', {}, 'https://loki.example/otlp/v1/logs'],
    ['https://a.example/x?key=1', {}, 'https://a.example/x/v1/logs?key=1'],
    [undefined, { ENDPOINT: 'http://collector:4318' }, 'http://collector:4318/v1/logs'],
    // The variable for logs is taken unchanged.
    [undefined, { LOGS_ENDPOINT: 'http://logs:4318' }, 'http://logs:4318/'],
    [undefined, { LOGS_ENDPOINT: 'http://logs/in', ENDPOINT: 'http://all' }, 'http://logs/in'],
    ['http://option', { LOGS_ENDPOINT: 'http://logs/in', ENDPOINT: 'http://all' }, 'http://option/v1/logs'],
  ] as const) {
    test(`${endpoint} ${JSON.stringify(variables)}`, () => assert.equal(urlOf(endpoint, variables), url));
  }

  test('headers and certificate: those of logs count, values are decoded', () => {
    const both = otlpTarget('https://collector', {
      ...withPrefix({
        HEADERS: 'authorization=Bearer%20abc, X-Scope-OrgID = tenant%2C1 ',
        CERTIFICATE: '/ca.crt',
      }),
    });
    assert.deepEqual(both?.headers, { authorization: 'Bearer abc', 'x-scope-orgid': 'tenant,1' });
    assert.equal(both?.certificateFile, '/ca.crt');
    const ofLogs = otlpTarget('https://collector', {
      ...withPrefix({ HEADERS: 'a=1', LOGS_HEADERS: 'b=2', CERTIFICATE: '/a', LOGS_CERTIFICATE: '/b' }),
    });
    assert.deepEqual(ofLogs?.headers, { b: '2' });
    assert.equal(ofLogs?.certificateFile, '/b');
  });

  for (const [endpoint, variables, why] of [
    ['', {}, /--otlp-endpoint/],
    ['collector:4318', {}, /http or https/],
    ['ftp://collector', {}, /http or https/],
    ['http://user:pass@collector', {}, /user name or password/],
    [undefined, { LOGS_ENDPOINT: 'x' }, /OTEL_EXPORTER_OTLP_LOGS_ENDPOINT/],
    ['http://collector', { HEADERS: 'no-equals-s3cret' }, /HEADERS/],
    ['http://collector', { HEADERS: 'a b=s3cret' }, /HEADERS/],
    ['http://collector', { HEADERS: 'a=s3cret%0d%0ax: y' }, /HEADERS/],
    ['http://collector', { HEADERS: 'a=s3cret%' }, /HEADERS/],
    ['http://collector:4317', { PROTOCOL: 'grpc' }, /grpc/],
  ] as const) {
    test(`refused: ${endpoint} ${JSON.stringify(variables)}`, () =>
      assert.throws(
        () => otlpTarget(endpoint, withPrefix(variables)),
        (error) => {
          assert.ok(error instanceof RampartError);
          assert.equal(error.code, errorCodes.INPUT);
          assert.match(error.message, why);
          assert.doesNotMatch(error.message, /s3cret|pass@/);
          return true;
        },
      ));
  }

  test('a certificate or headers alone send nothing anywhere', () => {
    assert.equal(
      otlpTarget(undefined, withPrefix({ HEADERS: 'a', CERTIFICATE: '/x', PROTOCOL: 'grpc' })),
      undefined,
    );
  });
});
