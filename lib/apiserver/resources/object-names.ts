/** Names of objects (k8s.io/apimachinery `pkg/api/validate/content/dns.go`, `path.go`). */
import { randomInt } from 'node:crypto';

import { subdomainProblems } from '../../kube/selectors/label-names.ts';
import type { NameRule } from './resource.ts';

const label = '[a-z0-9]([-a-z0-9]*[a-z0-9])?';
const label1035 = '[a-z]([-a-z0-9]*[a-z0-9])?';

const labelExpression = new RegExp(`^${label}$`);
const label1035Expression = new RegExp(`^${label1035}$`);

const isSubdomain = (name: string): boolean =>
  name.split('.').every((part) => part.length > 0 && labelExpression.test(part));

/** Errors in a name; empty for a valid one. */
export function nameProblems(rule: NameRule, name: string): readonly string[] {
  switch (rule) {
    case 'dns-subdomain':
      if (name.length <= 63 && labelExpression.test(name)) return none;
      return subdomainProblems(name);
    case 'dns-label':
      if (name.length <= 63 && labelExpression.test(name)) return none;
      return [...lengthProblems(name, 63), ...labelProblems(name)];
    case 'dns1035-label':
      return [
        ...lengthProblems(name, 63),
        ...(label1035Expression.test(name)
          ? []
          : [
              `a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '${label1035}')`,
            ]),
      ];
    case 'path-segment':
      return [...pathSegmentProblems(name), ...lengthProblems(name, 512), ...characterProblems(name)];
  }
}

const none: readonly string[] = [];

function lengthProblems(name: string, maxBytes: number): string[] {
  return Buffer.byteLength(name) > maxBytes ? [`must be no more than ${maxBytes} bytes`] : [];
}

// eslint-disable-next-line no-control-regex -- these are what is looked for
const unprintable = /[\u0000-\u001f\u007f]/;

/** Refuses control characters, which Kubernetes accepts in some names: here, no path could name the object afterwards. */
function characterProblems(name: string): string[] {
  return unprintable.test(name) || !name.isWellFormed() ? ['may not contain control characters'] : [];
}

function labelProblems(name: string): string[] {
  if (labelExpression.test(name)) return [];
  if (isSubdomain(name)) return ['must not contain dots'];
  return [
    `a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '${label}')`,
  ];
}

/** Errors in a name that is a segment of a path. */
export function pathSegmentProblems(name: string): readonly string[] {
  if (name === '.' || name === '..') return [`may not be '${name}'`];
  return ['/', '%'].filter((part) => name.includes(part)).map((part) => `may not contain '${part}'`);
}

/** Generated characters follow a dash at the end, so another character replaces it for the check of the rules. */
export function withoutTrailingDash(generateName: string): string {
  return generateName.length > 1 && generateName.endsWith('-')
    ? `${generateName.slice(0, -2)}a`
    : generateName;
}

/** k8s.io/apimachinery `pkg/util/rand`: no vowels and few look-alikes, so that no words come out. */
const alphabet = 'bcdfghjklmnpqrstvwxz2456789';
const randomLength = 5;
const maxBase = 63 - randomLength;

/** A generated name that begins with `base` (apiserver `pkg/storage/names/generate.go`). */
export function generatedName(base: string): string {
  let name = base.slice(0, maxBase);
  for (let index = 0; index < randomLength; index++) name += alphabet[randomInt(alphabet.length)] ?? '';
  return name;
}
