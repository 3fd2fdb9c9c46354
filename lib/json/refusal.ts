/** Why a patch or an apply is not done, in the form in which an API server answers it. */
import { errorCodes, RampartError } from '../errors/errors.ts';

/** A cause, in the form of `details.causes` of a Kubernetes Status. */
export interface RefusalCause {
  readonly reason: string;
  readonly message: string;
  readonly field: string;
}

/** The parts of a Kubernetes Status that depend on the refusal; the server adds the object's name and kind. */
export interface RefusalStatus {
  readonly code: 400 | 409 | 413 | 422;
  readonly reason: 'BadRequest' | 'Conflict' | 'RequestEntityTooLarge' | 'Invalid';
  readonly message: string;
  readonly causes?: readonly RefusalCause[];
}

const reasons = {
  400: 'BadRequest',
  409: 'Conflict',
  413: 'RequestEntityTooLarge',
  422: 'Invalid',
} as const;

/** The request cannot be done as it stands. `code` is `INPUT`; `status` is what the API server answers. */
export class Refusal extends RampartError {
  readonly status: RefusalStatus;

  constructor(code: RefusalStatus['code'], message: string, causes?: readonly RefusalCause[]) {
    super(errorCodes.INPUT, { what: message });
    this.name = 'Refusal';
    const status = { code, reason: reasons[code], message };
    this.status = causes === undefined ? status : { ...status, causes };
  }
}
