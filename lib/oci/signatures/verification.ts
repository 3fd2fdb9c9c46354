/** Whose signatures an artifact must have: the contents of a `verification.yml`. */
import { createPublicKey, type KeyObject } from 'node:crypto';

import { isObject } from '../../json/json.ts';
import { readYaml, refuseUnknown, unusable } from '../../files/yaml-file.ts';

/** One required signature. */
export type Requirement = PublicKeyRequirement | KeylessRequirement;

export interface PublicKeyRequirement {
  readonly kind: 'pubKey';
  /** For messages: the owner of the key. */
  readonly owner: string | undefined;
  readonly key: KeyObject;
  readonly annotations: Readonly<Record<string, string>>;
}

/** A signature with a certificate from Sigstore is required: its identity and issuer. */
export interface KeylessRequirement {
  readonly kind: 'genericIssuer' | 'githubAction';
  readonly issuer: string;
  readonly subject: { readonly equal: string } | { readonly urlPrefix: string };
  readonly annotations: Readonly<Record<string, string>>;
}

export interface Verification {
  readonly allOf: readonly Requirement[];
  readonly anyOf: readonly Requirement[];
  /** How many of `anyOf` are required. */
  readonly minimumMatches: number;
}

const githubIssuer = 'https://token.actions.githubusercontent.com';

/** @throws {RampartError} `NOT_FOUND`, `SYSTEM`, `INPUT` */
export function readVerificationFile(path: string): Verification {
  return parseVerification(readYaml(path), path);
}

/** @param what - Where it comes from, for messages. @throws {RampartError} `INPUT` */
export function parseVerification(document: unknown, what: string): Verification {
  if (!isObject(document)) throw unusable(what, 'it is not a mapping');
  refuseUnknown(document, ['apiVersion', 'allOf', 'anyOf'], what);
  if (document['apiVersion'] !== 'v1') throw unusable(what, 'apiVersion must be v1');
  const allOf = requirements(document['allOf'] ?? [], `${what}: allOf`);
  const any = document['anyOf'] ?? undefined;
  if (any !== undefined && !isObject(any)) throw unusable(what, 'anyOf is not a mapping');
  if (any !== undefined) refuseUnknown(any, ['minimumMatches', 'signatures'], `${what}: anyOf`);
  const anyOf = requirements(any?.['signatures'] ?? [], `${what}: anyOf.signatures`);
  const minimumMatches = any?.['minimumMatches'] ?? 1;
  if (typeof minimumMatches !== 'number' || !Number.isInteger(minimumMatches) || minimumMatches < 1) {
    throw unusable(what, 'anyOf.minimumMatches must be an integer of at least 1');
  }
  // An empty requirement would accept everything.
  if (allOf.length === 0 && anyOf.length === 0) throw unusable(what, 'it requires no signature');
  if (anyOf.length > 0 && minimumMatches > anyOf.length) {
    throw unusable(
      what,
      `anyOf.minimumMatches is ${minimumMatches}, but anyOf.signatures has ${anyOf.length}`,
    );
  }
  return { allOf, anyOf, minimumMatches };
}

/** A short description of a requirement, for messages. */
export function describeRequirement(requirement: Requirement): string {
  if (requirement.kind === 'pubKey')
    return `public key${requirement.owner === undefined ? '' : ` of ${requirement.owner}`}`;
  const { issuer, subject } = requirement;
  return `${'equal' in subject ? subject.equal : `${subject.urlPrefix}...`} by ${issuer}`;
}

function requirements(value: unknown, what: string): Requirement[] {
  if (!Array.isArray(value)) throw unusable(what, 'it is not a list');
  return value.map((each: unknown, index) => requirementOf(each, `${what}[${index}]`));
}

function requirementOf(value: unknown, what: string): Requirement {
  if (!isObject(value)) throw unusable(what, 'it is not a mapping');
  const annotations = annotationsOf(value['annotations'], what);
  switch (value['kind']) {
    case 'pubKey': {
      refuseUnknown(value, ['kind', 'owner', 'key', 'annotations'], what);
      return {
        kind: 'pubKey',
        owner: optional(value, 'owner', what),
        key: keyOf(needed(value, 'key', what), what),
        annotations,
      };
    }
    case 'genericIssuer': {
      refuseUnknown(value, ['kind', 'issuer', 'subject', 'annotations'], what);
      const subject = value['subject'];
      const { equal, urlPrefix } = isObject(subject) ? subject : {};
      const issuer = needed(value, 'issuer', what);
      if (typeof equal === 'string')
        return { kind: 'genericIssuer', issuer, subject: { equal }, annotations };
      if (typeof urlPrefix === 'string' && URL.canParse(urlPrefix)) {
        return { kind: 'genericIssuer', issuer, subject: { urlPrefix: withSlash(urlPrefix) }, annotations };
      }
      throw unusable(what, 'subject must have "equal", or "urlPrefix" with a URL');
    }
    case 'githubAction': {
      refuseUnknown(value, ['kind', 'owner', 'repo', 'annotations'], what);
      const repo = optional(value, 'repo', what);
      const urlPrefix = withSlash(
        `https://github.com/${needed(value, 'owner', what)}${repo === undefined ? '' : `/${repo}`}`,
      );
      return { kind: 'githubAction', issuer: githubIssuer, subject: { urlPrefix }, annotations };
    }
    default:
      throw unusable(
        what,
        `kind ${JSON.stringify(value['kind'])} is not one of pubKey, githubAction, genericIssuer`,
      );
  }
}

/** Without it, the prefix `https://github.com/team` would match `https://github.com/team-of-others`. */
function withSlash(url: string): string {
  return url.endsWith('/') ? url : `${url}/`;
}

function keyOf(pem: string, what: string): KeyObject {
  try {
    return createPublicKey(pem);
  } catch (error) {
    throw unusable(what, `key is not a PEM public key (${(error as Error).message})`);
  }
}

function annotationsOf(value: unknown, what: string): Readonly<Record<string, string>> {
  if (value === undefined || value === null) return {};
  if (isObject(value) && Object.values(value).every((text) => typeof text === 'string')) {
    return value as Record<string, string>;
  }
  throw unusable(what, 'annotations are not a mapping of strings');
}

function needed(record: Record<string, unknown>, key: string, what: string): string {
  const value = record[key];
  if (typeof value === 'string' && value !== '') return value;
  throw unusable(what, `"${key}" is missing`);
}

function optional(record: Record<string, unknown>, key: string, what: string): string | undefined {
  return record[key] === undefined || record[key] === null ? undefined : needed(record, key, what);
}
