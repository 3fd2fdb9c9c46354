/**
 * The syntax of label keys and values: qualified names with the limits 63 and 253. The rules and the
 * wording are those of the Kubernetes API server (k8s.io/apimachinery pkg/api/validate/content).
 */
import { hash } from 'node:crypto';

const labelMaxLength = 63;
const prefixMaxLength = 253;
const nameFormat = '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]';
const nameExpression = /^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$/;
const domainFormat = String.raw`[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*`;
const domainPartExpression = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
const nameRule =
  "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

/** Errors in a label's key, in the API server's words; empty for a valid one. */
export function labelKeyProblems(key: string): readonly string[] {
  const parts = key.split('/');
  const examples = `(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '${nameFormat}')`;
  if (parts.length > 2) {
    return [
      `a qualified name ${nameRule} ${examples} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`,
    ];
  }
  const problems: string[] = [];
  const name = parts.at(-1) ?? '';
  const prefix = parts.length === 2 ? parts[0] : undefined;
  if (prefix === '') problems.push('prefix part must be non-empty');
  else if (prefix !== undefined)
    problems.push(...subdomainProblems(prefix).map((problem) => `prefix part ${problem}`));
  if (name === '') problems.push('name part must be non-empty');
  else if (Buffer.byteLength(name) > labelMaxLength)
    problems.push(`name part must be no more than ${labelMaxLength} bytes`);
  if (!nameExpression.test(name)) problems.push(`name part ${nameRule} ${examples}`);
  return problems;
}

/** Errors in a label's value, in the API server's words; the empty value is valid. */
export function labelValueProblems(value: string): readonly string[] {
  const problems: string[] = [];
  if (Buffer.byteLength(value) > labelMaxLength)
    problems.push(`must be no more than ${labelMaxLength} bytes`);
  if (value !== '' && !nameExpression.test(value)) {
    problems.push(
      `a valid label must be an empty string or consist of ${nameRule.slice('must consist of '.length)} (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(${nameFormat})?')`,
    );
  }
  return problems;
}

/** Errors in a DNS subdomain, in the API server's words. */
export function subdomainProblems(domain: string): readonly string[] {
  const problems: string[] = [];
  if (Buffer.byteLength(domain) > prefixMaxLength)
    problems.push(`must be no more than ${prefixMaxLength} bytes`);
  if (!domain.split('.').every((part) => domainPartExpression.test(part))) {
    problems.push(
      `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '${domainFormat}')`,
    );
  }
  return problems;
}

const DIGEST_LENGTH = 8;

/** Any text as a label value: unchanged if it is valid. Otherwise without the invalid characters, and with a digest. */
export function labelValue(text: string): string {
  const allowed = text.replaceAll(/[^A-Za-z0-9_.-]/g, '-').replaceAll(/^[^A-Za-z0-9]+|[^A-Za-z0-9]+$/g, '');
  if (allowed === text && text.length <= labelMaxLength) return text;
  const begin = allowed.slice(0, labelMaxLength - DIGEST_LENGTH - 1).replace(/[^A-Za-z0-9]+$/, '');
  return begin === '' ? digest(text) : `${begin}-${digest(text)}`;
}

function digest(text: string): string {
  return hash('sha256', text).slice(0, DIGEST_LENGTH);
}
