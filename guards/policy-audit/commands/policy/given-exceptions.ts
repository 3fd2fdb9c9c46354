/** The PolicyExceptions among the manifests of a command line. */
import { policyExceptions } from '../../api.ts';
import { type Exceptions, exceptionsByPolicy } from '../../exceptions/exception.ts';
import { exceptionOf } from '../../exceptions/exception-file.ts';
import type { Subject } from '../../tools/subjects.ts';

/** @throws {RampartError} `INPUT` */
export function givenExceptions(subjects: readonly Subject[]): Exceptions {
  return exceptionsByPolicy(
    subjects
      .filter(({ kind }) => kind.group === policyExceptions.group && kind.kind === policyExceptions.kind)
      .map(({ file, line, request }) => exceptionOf(request.object, `${file}:${line}`)),
  );
}
