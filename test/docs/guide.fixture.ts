/**
 * The blocks of a guide that run, by the words behind the language of a block, which no page shows:
 *
 *     ```sh run          runs as it is
 *     ```sh run server   runs in a terminal of its own until the end, and serves the API before anything else runs
 *     ```sh run again    only looks: runs again until its output is there
 *     ```text output     what the last one prints: each of these lines, in this order, among others
 *
 * `[...]` in a line of output stands for anything. Numbers of columns, times, ages and process IDs are those of the day.
 */
export interface Block {
  /** Of the file, from 1. */
  readonly line: number;
  readonly script: string;
  readonly way: 'once' | 'server' | 'again';
  readonly output: string | undefined;
}

/** @throws {Error} for an output of nothing, and for words that mean nothing. */
export function blocksOf(markdown: string): Block[] {
  const blocks: Block[] = [];
  for (const { index, 1: info = '', 2: text = '' } of markdown.matchAll(/^```(.*)\n([^]*?)^```$/gm)) {
    const [language, word, way = 'once', ...more] = info.trim().split(/\s+/);
    if (word === undefined) continue;
    const line = markdown.slice(0, index).split('\n').length;
    if (language === 'sh' && word === 'run' && isWay(way) && more.length === 0) {
      blocks.push({ line, script: text, way, output: undefined });
      continue;
    }
    const last = blocks.at(-1);
    if (info !== 'text output' || last === undefined || last.output !== undefined)
      throw new Error(`line ${line}: what is ${JSON.stringify(info)}?`);
    blocks[blocks.length - 1] = { ...last, output: text };
  }
  return blocks;
}

function isWay(word: string): word is Block['way'] {
  return word === 'once' || word === 'server' || word === 'again';
}

/** What differs from one run to the next, in the order in which it is looked for. */
const varying: readonly (readonly [RegExp, string])[] = [
  [/\[\.\.\.\]/, '.*'],
  [/\d{4}-\d\d-\d\dT[\d:.]+Z/, '\\d{4}-\\d\\d-\\d\\dT[\\d:.]+Z'],
  [/\d\d:\d\d:\d\d\.\d+/, '\\d\\d:\\d\\d:\\d\\d\\.\\d+'],
  [/pid \d+/, 'pid \\d+'],
  [/\d+(?:ms|s|m|h)\b|\d+ (?:ms|s|min|h)\b/, '\\d+ ?(?:ms|s|m|min|h)(?:\\d+s)?'],
  [/\s+/, '\\s+'],
];
const anyVarying = new RegExp(varying.map(([{ source }]) => `(${source})`).join('|'), 'g');

/** The first line of `output` that `printed` does not have behind those before it; undefined if it has all. */
export function missingLine(output: string, printed: string): string | undefined {
  const lines = printed.split('\n').map((line) => line.trim());
  let next = 0;
  return output
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && line !== '[...]')
    .find((line) => {
      const pattern = patternOf(line);
      next = lines.findIndex((one, at) => at >= next && pattern.test(one)) + 1;
      return next === 0;
    });
}

function patternOf(line: string): RegExp {
  let pattern = '';
  let end = 0;
  for (const { index, 0: text, ...groups } of line.matchAll(anyVarying)) {
    const which = varying.findIndex((_, at) => groups[at + 1] !== undefined);
    pattern += escaped(line.slice(end, index)) + (varying[which]?.[1] ?? '');
    end = index + text.length;
  }
  return new RegExp(`^${pattern}${escaped(line.slice(end))}$`);
}

function escaped(text: string): string {
  return text.replaceAll(/[$()*+.?[\\\]^{|}]/g, '\\$&');
}
