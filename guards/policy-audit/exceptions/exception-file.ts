/** PolicyExceptions from manifests, with the checks of the API server. */
import { compileSchema, type CompiledSchema } from '../../../lib/apiserver/schema/compiled-schema.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { isObject } from '../../../lib/json/json.ts';
import { crdManifest } from '../../../lib/kube/crd/manifest.ts';
import { type PolicyException, policyExceptions } from '../api.ts';
import { type Exception, readException } from './exception.ts';

let schema: CompiledSchema | undefined;

/** @param what - Where the exception comes from, for messages. @throws {RampartError} `INPUT` */
export function exceptionOf(value: unknown, what: string): Exception {
  const refuse = (why: string): RampartError =>
    new RampartError(errorCodes.INPUT, { what: `${what}: PolicyException`, why });
  if (!isObject(value)) throw refuse('it is not an object');
  schema ??= compileSchema(manifestSchema(), { strict: false });
  const object = structuredClone(value);
  const [unknown] = schema.prune(object);
  if (unknown !== undefined) throw refuse(`unknown field "${unknown}"`);
  const [cause] = schema.validate(object);
  if (cause !== undefined) throw refuse(`${cause.field}: ${cause.message}`);
  return readException(object as unknown as PolicyException);
}

/** A list of exceptions, as written by the operator for policy servers. @throws {RampartError} `INPUT` */
export function exceptionsOf(document: unknown, what: string): Exception[] {
  if (document === null || document === undefined) return [];
  if (!Array.isArray(document))
    throw new RampartError(errorCodes.INPUT, { what: `${what} is not a list of PolicyExceptions` });
  return document.map((one: unknown, at) => exceptionOf(one, `${what}[${at}]`));
}

function manifestSchema() {
  const [version] = crdManifest(policyExceptions).spec.versions;
  if (version === undefined) throw new TypeError('PolicyException has no version');
  return version.schema.openAPIV3Schema;
}
