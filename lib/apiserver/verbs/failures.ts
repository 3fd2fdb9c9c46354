/** Errors from below the verbs, in the form that clients receive. */
import { errorCodes, messageOf, RampartError } from '../../errors/errors.ts';
import { SelectorError } from '../../kube/selectors/selectors.ts';
import { Refusal } from '../../json/refusal.ts';
import { ApiError, apiErrors, type Subject } from '../resources/api-error.ts';
import {
  AlreadyExistsError,
  ConflictError,
  ExpiredError,
  FutureVersionError,
  MalformedTokenError,
  NotFoundError,
} from '../store/errors.ts';

/** apiserver `pkg/storage/etcd3/errors.go` */
const expiredToken =
  'The provided continue parameter is too old to display a consistent list result. You can start a new list without ' +
  'the continue parameter, or use the continue token in this response to retrieve the remainder of the results. ' +
  'Continuing with the provided token results in an inconsistent list - objects that were created, modified, or ' +
  'deleted between the time the first chunk was returned and now may show up in the list.';

/** Turns any error into one for the client. */
export function answerOf(error: unknown, subject: Subject, name: string): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof Refusal) return apiErrors.about(subject, name, error.status);
  if (error instanceof SelectorError) return apiErrors.badRequest(error.message);
  if (error instanceof AlreadyExistsError) return apiErrors.alreadyExists(subject, name);
  if (error instanceof ConflictError) return apiErrors.changed(subject, name);
  if (error instanceof NotFoundError) return apiErrors.notFound(subject, name);
  if (error instanceof FutureVersionError) return tooLargeVersion(error.version, error.currentVersion);
  if (error instanceof MalformedTokenError) {
    return apiErrors.badRequest(`invalid continue token: continue key is not valid: ${reasonOf(error)}`);
  }
  if (error instanceof ExpiredError) {
    return error.newestToken === undefined
      ? apiErrors.expired('The resourceVersion for the provided list is too old.')
      : apiErrors.expired(expiredToken, error.newestToken);
  }
  if (error instanceof RampartError) return rampartAnswer(error);
  return apiErrors.internal(messageOf(error), error);
}

function rampartAnswer(error: RampartError): ApiError {
  if (error.code === errorCodes.LIMIT) return apiErrors.tooManyRequests(1);
  if (error.code === errorCodes.DISPOSED) return apiErrors.unavailable('the server is stopping');
  return apiErrors.internal(error.message, error);
}

/** The reason alone: "the token is malformed" from "cannot continue the list: the token is malformed. Give ...". */
function reasonOf(error: MalformedTokenError): string {
  const { message, next } = error;
  const reason = message.slice(message.indexOf(': ') + 2);
  return next === undefined ? reason : reason.replace(`. ${next}`, '');
}

/** apiserver `pkg/storage/errors.go`, NewTooLargeResourceVersionError */
export function tooLargeVersion(asked: bigint, current: bigint): ApiError {
  return new ApiError({
    code: 504,
    reason: 'Timeout',
    message: `Timeout: Too large resource version: ${asked}, current: ${current}`,
    details: {
      retryAfterSeconds: 1,
      causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }],
    },
  });
}
