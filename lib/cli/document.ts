/** Output of commands for programs. */
import { stringify } from 'yaml';

import { visibleJson, visibleText } from '../output/printable.ts';

/** Its number grows when a field goes away or changes its meaning; fields may be added without that. */
export type Schema = `rampart.dev/${string}/v${number}`;

/** Prints one document, with its schema first. 64-bit numbers are numbers if JSON represents them exactly, and strings otherwise. */
export function printDocument(format: 'json' | 'yaml', schema: Schema, value: object): void {
  process.stdout.write(documentText(format, { schema, ...value }));
}

/** Ends with a newline. */
export function documentText(format: 'json' | 'yaml', value: object): string {
  const json = JSON.stringify(value, (_, item: unknown) => {
    if (typeof item !== 'bigint') return item;
    return Number.isSafeInteger(Number(item)) ? Number(item) : String(item);
  });
  return format === 'json' ? `${visibleJson(json)}\n` : yamlOf(json);
}

/** One of a stream of documents, from a line of JSON; ends without a newline, as the line does. */
export function yamlDocument(json: string): string {
  return `---\n${yamlOf(json)}`.trimEnd();
}

/** Characters that cannot be seen, or that turn text around, have escapes in double quotes only. */
function yamlOf(json: string): string {
  const value: unknown = JSON.parse(json);
  const options = { lineWidth: 0, aliasDuplicateObjects: false };
  const text = stringify(value, options);
  if (visibleText(text) === text) return text;
  const quoted = { defaultStringType: 'QUOTE_DOUBLE', defaultKeyType: 'QUOTE_DOUBLE' } as const;
  return visibleJson(stringify(value, { ...options, ...quoted }));
}
