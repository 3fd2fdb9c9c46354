/** A parsed expression, and the program that matches it: a list of instructions (Thompson 1968). */
import { word, type CharSet } from './charset.ts';

export type Assertion = 'beginText' | 'endText' | 'wordBoundary' | 'noWordBoundary';

export type RegexNode =
  | { readonly kind: 'empty' }
  | { readonly kind: 'char'; readonly set: CharSet }
  | { readonly kind: 'assert'; readonly assertion: Assertion }
  | { readonly kind: 'concat'; readonly nodes: readonly RegexNode[] }
  | { readonly kind: 'alternate'; readonly nodes: readonly RegexNode[] }
  | {
      readonly kind: 'repeat';
      readonly node: RegexNode;
      readonly min: number;
      /** `Infinity` for `*` and `+`. */
      readonly max: number;
    };

/** Thrown if expressions need more instructions than an automaton may have. */
export class RegexSizeError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'RegexSizeError';
  }
}

export type Instruction =
  | { readonly op: 'char'; readonly set: CharSet }
  | { readonly op: 'assert'; readonly assertion: Assertion }
  | { op: 'split'; first: number; second: number }
  | { op: 'jump'; to: number }
  | { readonly op: 'match' };

const maxInstructions = 50_000;

/** Compiles an expression. @throws {RegexSizeError} if it grows too large when its repetitions are expanded. */
export function programOf(tree: RegexNode): Instruction[] {
  const program: Instruction[] = [];
  compile(tree, program);
  program.push({ op: 'match' });
  return program;
}

function compile(node: RegexNode, program: Instruction[]): void {
  if (program.length > maxInstructions) throw new RegexSizeError('expression too large');
  switch (node.kind) {
    case 'empty':
      return;
    case 'char':
      program.push({ op: 'char', set: node.set });
      return;
    case 'assert':
      program.push({ op: 'assert', assertion: node.assertion });
      return;
    case 'concat':
      for (const part of node.nodes) compile(part, program);
      return;
    case 'alternate': {
      const jumps: { op: 'jump'; to: number }[] = [];
      node.nodes.forEach((branch, index) => {
        if (index === node.nodes.length - 1) {
          compile(branch, program);
          return;
        }
        const split = { op: 'split' as const, first: program.length + 1, second: 0 };
        program.push(split);
        compile(branch, program);
        const jump = { op: 'jump' as const, to: 0 };
        jumps.push(jump);
        program.push(jump);
        split.second = program.length;
      });
      for (const jump of jumps) jump.to = program.length;
      return;
    }
    case 'repeat': {
      for (let time = 0; time < node.min; time++) compile(node.node, program);
      if (node.max === Infinity) compileLoop(node.node, program);
      else compileOptions(node, program);
    }
  }
}

function compileLoop(body: RegexNode, program: Instruction[]): void {
  const start = program.length;
  const split = { op: 'split' as const, first: start + 1, second: 0 };
  program.push(split);
  compile(body, program);
  program.push({ op: 'jump', to: start });
  split.second = program.length;
}

function compileOptions(node: RegexNode & { kind: 'repeat' }, program: Instruction[]): void {
  const splits: { op: 'split'; first: number; second: number }[] = [];
  for (let time = node.min; time < node.max; time++) {
    const split = { op: 'split' as const, first: program.length + 1, second: 0 };
    splits.push(split);
    program.push(split);
    compile(node.node, program);
  }
  for (const split of splits) split.second = program.length;
}

/** Stands for the character before the start and after the end of a text. */
export const endOfText = -1;

/** Whether an assertion holds between two characters, either of which may be {@link endOfText}. */
export function holds(assertion: Assertion, before: number, after: number): boolean {
  switch (assertion) {
    case 'beginText':
      return before === endOfText;
    case 'endText':
      return after === endOfText;
    case 'wordBoundary':
      return word(before) !== word(after);
    case 'noWordBoundary':
      return word(before) === word(after);
  }
}

/**
 * What assertions need to know about the previous character: a representative of its kind, which is a word character,
 * another one, or {@link endOfText}.
 */
export function contextOf(codePoint: number): number {
  if (codePoint === endOfText) return codePoint;
  return word(codePoint) ? 0x61 : 0x20;
}
