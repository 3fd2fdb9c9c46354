/** The PolicyExceptions among the manifests of a command line. */
import { policyExceptions } from '../../api.ts';
import { type Exception, type Exceptions, exceptionsByPolicy } from '../../exceptions/exception.ts';
import { exceptionOf } from '../../exceptions/exception-file.ts';
import type { Subject } from '../../tools/subjects.ts';

/** @param others - The cluster's exceptions. @throws {RampartError} `INPUT` */
export function givenExceptions(subjects: readonly Subject[], others: readonly Exception[] = []): Exceptions {
  return exceptionsByPolicy([
    ...others,
    ...subjects
      .filter(({ kind }) => kind.group === policyExceptions.group && kind.kind === policyExceptions.kind)
      .map(({ file, line, request }) => exceptionOf(request.object, `${file}:${line}`)),
  ]);
}
