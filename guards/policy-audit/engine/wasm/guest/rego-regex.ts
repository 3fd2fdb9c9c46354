/** Rego's `regex`, in the syntax of RE2 and in linear time. */
import { Regex, RegexBudgetError, RegexSyntaxError } from '../../../../../lib/regex/regex.ts';
import { type Builtin, type BuiltinContext, BuiltinError, integerAt, textAt } from './builtin.ts';

export const regexBuiltins: Readonly<Record<string, Builtin>> = {
  'regex.find_n': (args, context) => {
    const [text, max] = [textAt(args, 1), Number(integerAt(args, 2))];
    return search(context, textAt(args, 0), (regex) => regex.findAll(text, max < 0 ? Infinity : max));
  },
  'regex.split': (args, context) => {
    const text = textAt(args, 1);
    return search(context, textAt(args, 0), (regex) => regex.split(text));
  },
  'regex.replace': (args, context) => {
    const [text, by] = [textAt(args, 0), textAt(args, 2)];
    return search(context, textAt(args, 1), (regex) => regex.replaceAll(text, by));
  },
  'regex.template_match': (args, context) => {
    const [template, text, start, end] = [0, 1, 2, 3].map((at) => textAt(args, at)) as [
      string,
      string,
      string,
      string,
    ];
    return search(context, templateExpression(template, start, end), (regex) => regex.test(text));
  },
};

/** Limit of the cached expressions: policies may build patterns from their input. */
const maxExpressions = 100;

function search<T>({ expressions }: BuiltinContext, pattern: string, run: (regex: Regex) => T): T {
  try {
    let regex = expressions.get(pattern);
    if (regex === undefined) {
      if (expressions.size >= maxExpressions) expressions.clear();
      expressions.set(pattern, (regex = new Regex(pattern)));
    }
    return run(regex);
  } catch (error) {
    if (error instanceof RegexSyntaxError || error instanceof RegexBudgetError)
      throw new BuiltinError(error.message);
    throw error;
  }
}

/** An expression from a template: expressions between delimiters are kept, and other text matches literally. */
function templateExpression(template: string, start: string, end: string): string {
  for (const delimiter of [start, end]) {
    if (Buffer.byteLength(delimiter) !== 1)
      throw new BuiltinError(`a delimiter is one ASCII character, not ${JSON.stringify(delimiter)}`);
  }
  const unbalanced = new BuiltinError(`the delimiters of ${JSON.stringify(template)} are not balanced`);
  let [expression, depth, from] = ['^', 0, 0];
  for (let at = 0; at < template.length; at++) {
    const sign = template[at];
    if (sign === start && depth++ === 0) {
      expression += quoted(template.slice(from, at));
      from = at + 1;
    } else if (sign === end && --depth === 0) {
      expression += `(${template.slice(from, at)})`;
      from = at + 1;
    }
    if (depth < 0) throw unbalanced;
  }
  if (depth > 0) throw unbalanced;
  return `${expression}${quoted(template.slice(from))}$`;
}

function quoted(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`);
}
