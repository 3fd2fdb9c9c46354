/**
 * Named formats: `format.dns1123Label().validate(...)` (apiserver `pkg/cel/library/format.go`), with the messages
 * of apimachinery `pkg/util/validation/validation.go`.
 */
import { goQuote } from './go-text.ts';
import { formatCheck, isUri } from './formats.ts';
import { Optional } from './values.ts';
import type { Library } from './register.ts';

const label = '[a-z0-9]([-a-z0-9]*[a-z0-9])?';
const label1035 = '[a-z]([-a-z0-9]*[a-z0-9])?';
const qualified = '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]';

const tooLong = (max: number): string => `must be no more than ${max} ${max === 1 ? 'byte' : 'bytes'}`;

/** A rule with its message: `<words> (e.g. <examples>, regex used for validation is '<regex>')`. */
function regexMessage(words: string, regex: string, ...examples: readonly string[]): string {
  const quoted = examples.map((example) => `'${example}', `).join(' or ');
  return `${words} (e.g. ${quoted}regex used for validation is '${regex}')`;
}

const labelMessage = regexMessage(
  "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
  label,
  'my-name',
  '123-abc',
);
const subdomainMessage = regexMessage(
  "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
  `${label}(\\.${label})*`,
  'example.com',
);
const label1035Message = regexMessage(
  "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
  label1035,
  'my-name',
  'abc-123',
);
const labelValueMessage = regexMessage(
  "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
  `(${qualified})?`,
  'MyValue',
  'my_value',
  '12345',
);
const qualifiedNameMessage = regexMessage(
  "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
  qualified,
  'MyName',
  'my.name',
  '123-abc',
);

const isLabel = (text: string): boolean => /^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?$/.test(text);
const isLabel1035 = (text: string): boolean => /^[a-z](?:[-a-z0-9]*[a-z0-9])?$/.test(text);
const isSubdomain = (text: string): boolean => text.split('.').every(isLabel);
const isQualified = (text: string): boolean => /^[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?$/.test(text);

function byRegex(max: number, test: (text: string) => boolean, message: string): (text: string) => string[] {
  return (text) => [
    ...(Buffer.byteLength(text) > max ? [tooLong(max)] : []),
    ...(test(text) ? [] : [message]),
  ];
}

/** A rule for prefixes: one may end with a hyphen, because more follows. */
const asPrefix =
  (check: (text: string) => string[]): ((text: string) => string[]) =>
  (text) =>
    check(text.endsWith('-') && text.length > 1 ? `${text.slice(0, -1)}a` : text);

function qualifiedName(text: string): string[] {
  const parts = text.split('/');
  const name = parts.at(-1) ?? '';
  const problems: string[] = [];
  if (parts.length > 2) {
    return [
      `a qualified name ${qualifiedNameMessage.replace('name part ', '')} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`,
    ];
  }
  if (parts.length === 2) {
    const prefix = parts[0] ?? '';
    if (prefix === '') problems.push('prefix part must be non-empty');
    else problems.push(...dns1123Subdomain(prefix).map((problem) => `prefix part ${problem}`));
  }
  if (name === '') problems.push('name part must be non-empty');
  else if (Buffer.byteLength(name) > 63) problems.push(`name part ${tooLong(63)}`);
  if (!isQualified(name)) problems.push(qualifiedNameMessage);
  return problems;
}

const dns1123Label = byRegex(63, isLabel, labelMessage);
const dns1123Subdomain = byRegex(253, isSubdomain, subdomainMessage);
const dns1035Label = byRegex(63, isLabel1035, label1035Message);

const ofFormat =
  (name: string, message: string): ((text: string) => string[]) =>
  (text) =>
    formatCheck(name)?.(text) === true ? [] : [message];

class Format {
  readonly name: string;
  readonly validate: (text: string) => string[];

  constructor(name: string, validate: (text: string) => string[]) {
    this.name = name;
    this.validate = validate;
  }

  equals(other: unknown): boolean {
    return other instanceof Format && other.name === this.name;
  }
}

const formats = [
  new Format('dns1123Label', dns1123Label),
  new Format('dns1123Subdomain', dns1123Subdomain),
  new Format('dns1035Label', dns1035Label),
  new Format('qualifiedName', qualifiedName),
  new Format('dns1123LabelPrefix', asPrefix(dns1123Label)),
  new Format('dns1123SubdomainPrefix', asPrefix(dns1123Subdomain)),
  new Format('dns1035LabelPrefix', asPrefix(dns1035Label)),
  new Format(
    'labelValue',
    byRegex(63, (text) => text === '' || isQualified(text), labelValueMessage),
  ),
  new Format('uri', (text) => (isUri(text) ? [] : [`parse ${goQuote(text)}: invalid URI for request`])),
  new Format('uuid', ofFormat('uuid', 'does not match the UUID format')),
  new Format('byte', ofFormat('byte', 'invalid base64')),
  new Format('date', ofFormat('date', 'invalid date')),
  new Format('datetime', ofFormat('datetime', 'invalid datetime')),
];

export function addFormats(library: Library): void {
  library
    .type('kubernetes.NamedFormat', Format)
    .add('format.named(string): optional<kubernetes.NamedFormat>', (name: string) => {
      const format = formats.find((one) => one.name === name);
      return format === undefined ? Optional.none : Optional.of(format);
    })
    .add(
      'kubernetes.NamedFormat.validate(string): optional<list<string>>',
      (format: Format, text: string) => {
        const problems = format.validate(text);
        return problems.length === 0 ? Optional.none : Optional.of(problems);
      },
    );
  for (const format of formats) library.add(`format.${format.name}(): kubernetes.NamedFormat`, () => format);
}
