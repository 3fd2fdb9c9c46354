/**
 * Refuses phrases in comments that only their author understands, as an oxlint rule (see `.oxlintrc.json`).
 * Each is refused with an alternative.
 */

/** By what is wrong; matched against a comment as one line. */
const refused: readonly (readonly [phrase: RegExp, instead: string])[] = [
  [/^(?:(?:Also|Not) of|Of)\s/, 'begin with the noun: "Limit of all queues", "Name of the controller"'],
  [
    /^By (?:id|key|kind|name|namespace|node|path|type|uid)\b/i,
    'say "Keyed by", "Sorted by" or what is found by it',
  ],
  [/\b(?:is|are|was|were) none\b/, 'say what is missing or invalid: "without a lease", "is not a version"'],
  [/\btold (?:of|by|as)\b/, 'say "reported", "called", "identified by"'],
  [/\bof before\b/, 'say "previous" or "earlier"'],
  [/\b(?:somebody|nobody|anybody)\b/i, 'name the process, the user or the caller'],
  [/\bso (?:many|often|long|much)\b(?! as\b)(?! \w+ as\b)/i, 'say "this many", or name the limit'],
  [/\b(?:is|are|was|were) to be\b/, 'say "has to be", "will be" or use a verb'],
  [/\blets? go\b/, 'say "releases", "drops" or "closes"'],
  [/\bstands? (?:in|at|behind|before|beside|there|on)\b/, 'say "is in", "is at", "depends on"'],
  [/\b(?:is|are|was|were) not there\b/i, 'say "does not exist", "is missing" or "is absent"'],
  [/\bleads? nowhere\b/, 'say that a link is dangling, or that there is no file'],
  [/\bgoes? with it\b/, 'say "is deleted with it"'],
  [/\bundefined where\b/i, 'say "undefined if"'],
  [/\bthat is not so\b/, 'name the condition'],
  [/\bsays? nothing of\b/, 'say "has no information about"'],
  [/\buntil now\b/, 'say "so far", "current" or "previous"'],
  [/\blook(?:s|ed)? whether\b/i, 'say "checks whether"'],
  [/\bcomes? to nothing\b/, 'say "has no effect"'],
  [/\bcalled so\b/, 'say "with this name"'],
];

/** Why a comment is refused; undefined for one that may stay. @param text - Without its delimiters. */
export function commentObjection(text: string): string | undefined {
  const line = text
    .replaceAll(/^\s*\*+ ?/gm, '')
    .replaceAll(/\s+/g, ' ')
    .trim();
  for (const [phrase, instead] of refused) {
    const found = phrase.exec(line)?.[0].trim();
    if (found !== undefined) return `"${found}" in a comment: ${instead}`;
  }
  return undefined;
}

/** The parts of oxlint's comments and rule context that are read here. */
interface Place {
  readonly line: number;
  readonly column: number;
}
interface Comment {
  readonly type: string;
  readonly value: string;
  readonly loc: { readonly start: Place; readonly end: Place };
}
interface RuleContext {
  readonly sourceCode: { readonly text: string; getAllComments(): readonly Comment[] };
  report(problem: { readonly message: string; readonly loc: Comment['loc'] }): void;
}

/** Consecutive `//` lines are one comment: a sentence goes on in the next line. */
function joined(comments: readonly Comment[], lines: readonly string[]): Comment[] {
  const result: Comment[] = [];
  for (const comment of comments) {
    const last = result.at(-1);
    const { start, end } = comment.loc;
    const continues =
      last?.type === 'Line' &&
      comment.type === 'Line' &&
      last.loc.end.line + 1 === start.line &&
      lines[start.line - 1]?.slice(0, start.column).trim() === '';
    if (continues) {
      result.pop();
      const value = `${last.value}\n${comment.value}`;
      result.push({ type: 'Line', value, loc: { start: last.loc.start, end } });
    } else result.push(comment);
  }
  return result;
}

const plainWords = {
  create({ sourceCode, report }: RuleContext) {
    return {
      Program(): void {
        for (const { value, loc } of joined(sourceCode.getAllComments(), sourceCode.text.split('\n'))) {
          const message = commentObjection(value);
          if (message !== undefined) report({ message, loc });
        }
      },
    };
  },
};

export default { meta: { name: 'comments' }, rules: { 'plain-words': plainWords } };
