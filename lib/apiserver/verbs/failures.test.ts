import assert from 'node:assert/strict';
import { test } from 'node:test';

import { SelectorError } from '../../kube/selectors/selectors.ts';
import { errorCodes, RampartError } from '../../errors/errors.ts';
import { Refusal } from '../../json/refusal.ts';
import { apiErrors } from '../resources/api-error.ts';
import {
  AlreadyExistsError,
  ConflictError,
  ExpiredError,
  FutureVersionError,
  MalformedTokenError,
  NotFoundError,
} from '../store/errors.ts';
import { answerOf } from './failures.ts';

const subject = { group: 'apps', plural: 'deployments', kind: 'Deployment' };
const key = { resource: 'deployments.apps', namespace: 'default', name: 'web' };

const cases: readonly (readonly [Error, number, string, string | RegExp])[] = [
  [new AlreadyExistsError(key), 409, 'AlreadyExists', 'deployments.apps "web" already exists'],
  [new ConflictError('update', key, 4n, 5n), 409, 'Conflict', /the object has been modified/],
  [new NotFoundError('update', key), 404, 'NotFound', 'deployments.apps "web" not found'],
  [
    new ExpiredError('list at', 1n, 5n),
    410,
    'Expired',
    'The resourceVersion for the provided list is too old.',
  ],
  [
    new ExpiredError('continue the list of', 1n, 5n, 'token'),
    410,
    'Expired',
    /^The provided continue parameter is too old/,
  ],
  [
    new FutureVersionError('list at', 9n, 5n),
    504,
    'Timeout',
    'Timeout: Too large resource version: 9, current: 5',
  ],
  [
    new MalformedTokenError('the token is malformed'),
    400,
    'BadRequest',
    /^invalid continue token: .* the token is malformed$/,
  ],
  [new SelectorError('x'), 400, 'BadRequest', 'x'],
  [new Refusal(413, 'too many'), 413, 'RequestEntityTooLarge', 'too many'],
  [new RampartError(errorCodes.LIMIT, { what: 'x' }), 429, 'TooManyRequests', /^Too many requests/],
  [new RampartError(errorCodes.DISPOSED, { what: 'x' }), 503, 'ServiceUnavailable', 'the server is stopping'],
  [
    new RampartError(errorCodes.FULL, {
      what: 'cannot create pods a',
      why: 'database or disk is full',
      next: 'Free space',
    }),
    500,
    'InternalError',
    'Internal error occurred: cannot create pods a: database or disk is full. Free space',
  ],
  [new TypeError('a fault of ours'), 500, 'InternalError', 'Internal error occurred: a fault of ours'],
  [apiErrors.badRequest('x'), 400, 'BadRequest', 'x'],
];

for (const [error, code, reason, message] of cases) {
  test(`${error.name}: ${error.message.slice(0, 60)}`, () => {
    const { status } = answerOf(error, subject, 'web');
    assert.deepEqual([status.code, status.reason], [code, reason]);
    if (typeof message === 'string') assert.equal(status.message, message);
    else assert.match(status.message, message);
  });
}

test('a refusal says what it is about, and why', () => {
  const causes = [{ reason: 'FieldManagerConflict', message: 'm', field: '.spec' }];
  const { status } = answerOf(new Refusal(409, 'conflict', causes), subject, 'web');
  assert.deepEqual(status.details, { name: 'web', group: 'apps', kind: 'deployments', causes });
});

test('too many requests say when to come again, an old token which one to go on with', () => {
  const { status: busy } = answerOf(new RampartError(errorCodes.LIMIT, { what: 'x' }), subject, '');
  assert.equal(busy.details?.retryAfterSeconds, 1);
  const { status: old } = answerOf(new ExpiredError('continue', 1n, 5n, 'token'), subject, '');
  assert.deepEqual(old.metadata, { continue: 'token' });
});
