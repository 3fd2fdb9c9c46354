/** The functions on `authorizer` (apiserver `pkg/cel/library/authz.go`). */
import { Authorizer, Decision, GroupCheck, PathCheck, ResourceCheck } from './authorizer.ts';
import { failure } from './failure.ts';
import type { Library } from './register.ts';
import type { Type } from './static-types.ts';

const name = 'kubernetes.authorization';
export const authorizerType: Type = { kind: 'opaque', name: `${name}.Authorizer` };
export const resourceCheckType: Type = { kind: 'opaque', name: `${name}.ResourceCheck` };

const label = /^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$/;

function serviceAccount(authorizer: Authorizer, namespace: string, account: string): Authorizer {
  if (account.length > 253 || !account.split('.').every((part) => label.test(part)))
    throw failure('Invalid service account name');
  if (!label.test(namespace)) throw failure('Invalid service account namespace');
  return authorizer.serviceAccount(namespace, account);
}

function notEmpty(text: string, what: string): string {
  if (text.trim() === '') throw failure(`${what} must not be empty`);
  return text;
}

export function addAuthorizer(library: Library): void {
  library
    .type(`${name}.Authorizer`, Authorizer)
    .type(`${name}.PathCheck`, PathCheck)
    .type(`${name}.GroupCheck`, GroupCheck)
    .type(`${name}.ResourceCheck`, ResourceCheck)
    .type(`${name}.Decision`, Decision)
    .add(
      `${name}.Authorizer.path(string): ${name}.PathCheck`,
      (authorizer: Authorizer, path: string) => new PathCheck(authorizer, { path: notEmpty(path, 'path') }),
    )
    .add(
      `${name}.Authorizer.group(string): ${name}.GroupCheck`,
      (authorizer: Authorizer, group: string) => new GroupCheck(authorizer, { group }),
    )
    .add(`${name}.Authorizer.serviceAccount(string, string): ${name}.Authorizer`, serviceAccount)
    .add(
      `${name}.GroupCheck.resource(string): ${name}.ResourceCheck`,
      ({ authorizer, part }: GroupCheck, resource: string) =>
        new ResourceCheck(authorizer, { ...part, resource: notEmpty(resource, 'resource') }),
    );
  for (const field of ['subresource', 'namespace', 'name', 'fieldSelector', 'labelSelector']) {
    library.add(
      `${name}.ResourceCheck.${field}(string): ${name}.ResourceCheck`,
      (check: ResourceCheck, text: string) => check.with({ [field]: text }),
    );
  }
  for (const kind of ['PathCheck', 'ResourceCheck']) {
    library.add(
      `${name}.${kind}.check(string): ${name}.Decision`,
      (check: PathCheck | ResourceCheck, verb: string) => check.check(verb),
    );
  }
  library
    .add(`${name}.Decision.allowed(): bool`, ({ answer }: Decision) => answer.allowed)
    .add(`${name}.Decision.reason(): string`, ({ answer }: Decision) => answer.reason ?? '')
    .add(`${name}.Decision.errored(): bool`, ({ answer }: Decision) => answer.error !== undefined)
    .add(`${name}.Decision.error(): string`, ({ answer }: Decision) => answer.error ?? '');
}
