/** Output of commands for programs. */
import { stringify } from 'yaml';

import { visibleJson, visibleText } from '../output/printable.ts';

/** The number grows when a field is removed or changes its meaning, but not when one is added. */
export type Schema = `rampart.dev/${string}/v${number}`;

/** Prints a document, with its schema first. 64-bit numbers are printed as strings if JSON cannot represent them exactly. */
export function printDocument(format: 'json' | 'yaml', schema: Schema, value: object): void {
  process.stdout.write(documentText(format, { schema, ...value }));
}

/** The document as text, with a newline at the end. */
export function documentText(format: 'json' | 'yaml', value: object): string {
  const json = JSON.stringify(value, (_, item: unknown) => {
    if (typeof item !== 'bigint') return item;
    return Number.isSafeInteger(Number(item)) ? Number(item) : String(item);
  });
  return format === 'json' ? `${visibleJson(json)}\n` : yamlOf(json);
}

/** Converts a line of JSON into one YAML document of a stream; neither ends with a newline. */
export function yamlDocument(json: string): string {
  return `---\n${yamlOf(json)}`.trimEnd();
}

/** Uses double quotes for texts with invisible characters or ones that change the text direction: only there, YAML has escapes. */
function yamlOf(json: string): string {
  const value: unknown = JSON.parse(json);
  const options = { lineWidth: 0, aliasDuplicateObjects: false };
  const text = stringify(value, options);
  if (visibleText(text) === text) return text;
  const quoted = { defaultStringType: 'QUOTE_DOUBLE', defaultKeyType: 'QUOTE_DOUBLE' } as const;
  return visibleJson(stringify(value, { ...options, ...quoted }));
}
