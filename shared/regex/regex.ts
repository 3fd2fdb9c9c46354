/**
 * Regular expressions of Go (RE2) with its guarantee: the time to match grows linearly with the text, whatever
 * the pattern is. Matching walks a set of states (Thompson 1968); the sets already seen are kept as a
 * deterministic automaton, so that the usual pattern costs one table look-up per character.
 *
 * @module
 */
import { parseRegex } from './parse.ts';
import { contextOf, endOfText, holds, programOf, type Instruction } from './program.ts';

/** Pattern and text need more steps than one match may take. */
export class RegexBudgetError extends Error {
  constructor() {
    super('the match needs too many steps');
    this.name = 'RegexBudgetError';
  }
}

/** States of the automaton kept at a time: their members, over all states. */
const maxCachedMembers = 200_000;
/** Visits of a state of the pattern in one match that are not answered by the automaton. */
const maxStepsPerMatch = 20_000_000;

interface State {
  /** Where in the pattern matching continues, before what takes no character is followed. */
  readonly members: readonly number[];
  readonly before: number;
  /** The next state for an ASCII character; see `unknown`. */
  readonly ascii: Int32Array;
  readonly others: Map<number, number>;
}

const unknown = -1;
const dead = -2;
const matched = -3;

/** A compiled expression. Holds only memory; nothing has to be disposed. */
export class Regex {
  readonly pattern: string;
  readonly #program: readonly Instruction[];
  readonly #anchored: boolean;
  #states: State[] = [];
  #stateNumbers = new Map<string, number>();
  #cachedMembers = 0;
  #steps = 0;
  readonly #visited: Uint32Array;
  #visit = 0;

  /** @throws {RegexSyntaxError} for what Go's `regexp.Compile` refuses. */
  constructor(pattern: string) {
    this.pattern = pattern;
    this.#program = programOf(parseRegex(pattern));
    const first = this.#program[0];
    this.#anchored = first?.op === 'assert' && first.assertion === 'beginText';
    this.#visited = new Uint32Array(this.#program.length);
  }

  /**
   * Whether the pattern matches anywhere in the text (Go's `MatchString`).
   *
   * @throws {RegexBudgetError} when a pattern of thousands of states meets a text of megabytes.
   */
  test(text: string): boolean {
    this.#steps = 0;
    let number = this.#stateFor([0], endOfText);
    for (let index = 0; index < text.length; index++) {
      let codePoint = text.charCodeAt(index);
      if (codePoint >= 0xd800 && codePoint < 0xdc00) {
        codePoint = text.codePointAt(index) ?? 0;
        if (codePoint > 0xffff) index++;
      }
      const state = this.#states[number];
      if (state === undefined) return false;
      const known = codePoint < 128 ? state.ascii[codePoint] : state.others.get(codePoint);
      number = known === undefined || known === unknown ? this.#step(state, codePoint) : known;
      if (number === matched) return true;
      if (number === dead) return false;
    }
    const state = this.#states[number];
    return state !== undefined && this.#closure(state.members, state.before, endOfText) === matched;
  }

  #instruction(at: number): Instruction {
    const instruction = this.#program[at];
    if (instruction === undefined) throw new RangeError(`no instruction ${at}`);
    return instruction;
  }

  #stateFor(members: readonly number[], before: number): number {
    const key = `${before}:${members.join(',')}`;
    const known = this.#stateNumbers.get(key);
    if (known !== undefined) return known;
    const number = this.#states.length;
    this.#states.push({ members, before, ascii: new Int32Array(128).fill(unknown), others: new Map() });
    this.#stateNumbers.set(key, number);
    this.#cachedMembers += members.length + 32;
    return number;
  }

  #step(state: State, codePoint: number): number {
    const closure = this.#closure(state.members, state.before, codePoint);
    let next: number;
    if (closure === matched) next = matched;
    else {
      const members = closure
        .filter((at) => {
          const instruction = this.#instruction(at);
          return instruction.op === 'char' && instruction.set(codePoint);
        })
        .map((at) => at + 1);
      if (!this.#anchored && !members.includes(0)) members.push(0);
      if (members.length === 0) next = dead;
      else {
        if (this.#cachedMembers > maxCachedMembers) this.#forget();
        next = this.#stateFor(
          members.sort((a, b) => a - b),
          contextOf(codePoint),
        );
      }
    }
    if (codePoint < 128) state.ascii[codePoint] = next;
    else if (state.others.size < 256) state.others.set(codePoint, next);
    return next;
  }

  #forget(): void {
    this.#states = [];
    this.#stateNumbers = new Map();
    this.#cachedMembers = 0;
  }

  /** The character instructions reachable without taking a character, or `matched`. */
  #closure(members: readonly number[], before: number, after: number): number[] | typeof matched {
    const found: number[] = [];
    const stack = [...members];
    this.#visit++;
    for (let at = stack.pop(); at !== undefined; at = stack.pop()) {
      if (this.#visited[at] === this.#visit) continue;
      this.#visited[at] = this.#visit;
      if (++this.#steps > maxStepsPerMatch) throw new RegexBudgetError();
      const instruction = this.#instruction(at);
      switch (instruction.op) {
        case 'match':
          return matched;
        case 'char':
          found.push(at);
          break;
        case 'jump':
          stack.push(instruction.to);
          break;
        case 'split':
          stack.push(instruction.first, instruction.second);
          break;
        case 'assert':
          if (holds(instruction.assertion, before, after)) stack.push(at + 1);
      }
    }
    return found;
  }

  /**
   * The leftmost match from `start` on, with Go's preference among those that begin there
   * (`FindStringIndex`), as `[from, to]` in UTF-16 units.
   *
   * @throws {RegexBudgetError} as {@link test}.
   */
  find(text: string, start = 0): readonly [number, number] | undefined {
    this.#steps = 0;
    let threads: Thread[] = [];
    let best: readonly [number, number] | undefined;
    let before = start === 0 ? endOfText : (text.codePointAt(start - 1) ?? 0);
    for (let index = start; ;) {
      const after = index < text.length ? (text.codePointAt(index) ?? 0) : endOfText;
      if (best === undefined && (!this.#anchored || index === 0)) threads.push({ at: 0, from: index });
      const width = after > 0xffff ? 2 : 1;
      const next: Thread[] = [];
      this.#visit++;
      for (const thread of threads) {
        if (this.#follow(thread, before, after, next)) {
          best = [thread.from, index];
          // What comes after a match has lower priority.
          break;
        }
      }
      if (after === endOfText || (next.length === 0 && best !== undefined)) return best;
      if (next.length === 0 && this.#anchored) return best;
      threads = next;
      before = after;
      index += width;
    }
  }

  /** Adds where a thread can go over `after`, by priority; `true` when it reaches the end of the pattern. */
  #follow(thread: Thread, before: number, after: number, next: Thread[]): boolean {
    const stack = [thread.at];
    for (let at = stack.pop(); at !== undefined; at = stack.pop()) {
      if (this.#visited[at] === this.#visit) continue;
      this.#visited[at] = this.#visit;
      if (++this.#steps > maxStepsPerMatch) throw new RegexBudgetError();
      const instruction = this.#instruction(at);
      switch (instruction.op) {
        case 'match':
          return true;
        case 'char':
          if (after !== endOfText && instruction.set(after)) next.push({ at: at + 1, from: thread.from });
          break;
        case 'jump':
          stack.push(instruction.to);
          break;
        case 'split':
          stack.push(instruction.second, instruction.first);
          break;
        case 'assert':
          if (holds(instruction.assertion, before, after)) stack.push(at + 1);
      }
    }
    return false;
  }

  /** All matches that do not overlap, at most `limit` (Go's `FindAllString`). */
  findAll(text: string, limit = Infinity): string[] {
    const found: string[] = [];
    let previousEnd = -1;
    for (let start = 0; start <= text.length && found.length < limit;) {
      const match = this.find(text, start);
      if (match === undefined) break;
      const [from, to] = match;
      // An empty match right after a match does not count.
      if (to > from || from !== previousEnd) found.push(text.slice(from, to));
      previousEnd = to;
      start = to > from ? to : to + ((text.codePointAt(to) ?? 0) > 0xffff ? 2 : 1);
    }
    return found;
  }
}

interface Thread {
  readonly at: number;
  readonly from: number;
}
