/**
 * The parts of the documentation that repeat what the code says. `node scripts/docs.ts` writes them anew;
 * docs.test.ts fails when they are out of date.
 *
 * @module
 */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { format, resolveConfig } from 'prettier';

import { describeMask } from '../shared/sensor/access.ts';
import { operations, sensorModeNames } from '../shared/sensor/modes.ts';

const top = join(import.meta.dirname, '..');

/** What each generated part is made of, by the name that its markers carry. */
const parts: Readonly<Record<string, () => string>> = {
  operations: operationsTable,
  'watch help': () => commandHelp('watch'),
  'doctor help': () => commandHelp('doctor'),
};

/** The files that have such parts, by their path from the top of the repository. */
export const generatedFiles: readonly string[] = ['docs/sensor.md', 'docs/watch.md'];

/** What the modes see: shared/sensor/modes.ts as a Markdown table. */
export function operationsTable(): string {
  const head = ['operation', 'what', ...sensorModeNames, 'why not'];
  const rows = operations.map(({ name, what, seen, unseenBecause }) => {
    const cells = sensorModeNames.map((mode) => {
      const mask = seen[mode];
      return mask === undefined ? 'no' : `${describeMask(mask).join(', ')} (${mask})`;
    });
    const everywhere = sensorModeNames.every((mode) => seen[mode] !== undefined);
    return [`\`${name}\``, what, ...cells, everywhere ? '' : (unseenBecause ?? '')];
  });
  return [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n');
}

function commandHelp(command: string): string {
  const help = execFileSync(join(top, 'bin/rampart'), [command, '--help'], { encoding: 'utf8' });
  return `\`\`\`text\n${help.trimEnd()}\n\`\`\``;
}

const part = /(<!-- generated: ([\w ]+) -->)\n.*?(<!-- end -->)/gs;

/** The text of a Markdown file with its generated parts made anew, formatted. */
export async function regenerate(text: string): Promise<string> {
  const fresh = text.replaceAll(part, (_all, begin: string, name: string, end: string) => {
    const make = parts[name];
    if (make === undefined) throw new Error(`nothing is generated under the name "${name}"`);
    return `${begin}\n\n${make()}\n\n${end}`;
  });
  const options = await resolveConfig(join(top, 'docs', 'any.md'));
  return format(fresh, { ...options, parser: 'markdown' });
}

if (import.meta.main) {
  for (const file of generatedFiles) {
    const path = join(top, file);
    const before = readFileSync(path, 'utf8');
    const after = await regenerate(before);
    if (after !== before) writeFileSync(path, after);
    console.log(`${file}: ${after === before ? 'up to date' : 'written'}`);
  }
}
