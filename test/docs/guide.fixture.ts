/**
 * The blocks of a guide that run, by the words behind the language of a block, which no page shows:
 *
 *     ```sh run          runs as it is
 *     ```sh run server   runs in a terminal of its own until the end, and serves the API before anything else runs
 *     ```sh run again    only looks: runs again until its output is there
 *     ```sh run each     each line goes on until Ctrl-C, which it gets when it has printed something
 *     ```sh run beside   runs in a terminal of its own to the end of the guide; its output is there before the next one runs
 *     ```sh run cluster  runs once in a cluster, whose agent and operator are processes of the node
 *     ```text output     what the last one prints: each of these lines, in this order, among others
 *
 * `[...]` in a line of output stands for anything. Numbers of columns, times, ages and process IDs are those of the day.
 */
export interface Block {
  /** Line in the file, from 1. */
  readonly line: number;
  readonly script: string;
  readonly way: Way;
  readonly output: string | undefined;
}

const ways = ['once', 'server', 'again', 'each', 'beside', 'cluster'] as const;
type Way = (typeof ways)[number];

interface Fence {
  readonly line: number;
  /** Behind the fence. */
  readonly words: readonly string[];
  readonly text: string;
}

/** Those in lists without the columns of the list. */
function fencesOf(markdown: string): Fence[] {
  return [...markdown.matchAll(/^( *)```(.*)\n([^]*?)^\1```$/gm)].map(
    ({ index, 1: indent = '', 2: info = '', 3: text = '' }) => ({
      line: markdown.slice(0, index).split('\n').length,
      words: info.trim().split(/\s+/),
      text: text.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
    }),
  );
}

/** Shell blocks without words: no test of the guides runs them. By their first command. */
export function plainBlocksOf(markdown: string): string[] {
  return fencesOf(markdown)
    .filter(({ words }) => words.join(' ') === 'sh')
    .map(
      ({ text }) =>
        text
          .split('\n')
          .find((line) => !line.startsWith('#'))
          ?.trimEnd() ?? '',
    );
}

/** @throws {Error} for an output of nothing, and for words that mean nothing. */
export function blocksOf(markdown: string): Block[] {
  const blocks: Block[] = [];
  for (const { line, words, text } of fencesOf(markdown)) {
    const [language, word, way = 'once', ...more] = words;
    if (word === undefined) continue;
    if (language === 'sh' && word === 'run' && isWay(way) && more.length === 0) {
      blocks.push({ line, script: text, way, output: undefined });
      continue;
    }
    const last = blocks.at(-1);
    if (words.join(' ') !== 'text output' || last === undefined || last.output !== undefined)
      throw new Error(`line ${line}: what is ${JSON.stringify(words.join(' '))}?`);
    blocks[blocks.length - 1] = { ...last, output: text };
  }
  return blocks;
}

function isWay(word: string): word is Way {
  return ways.includes(word as Way);
}

/** The parts that differ between runs, in the order of the search. */
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
