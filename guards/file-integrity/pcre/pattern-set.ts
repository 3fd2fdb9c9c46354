/**
 * Matches many expressions in one pass, anchored at the start of a text of bytes. One automaton determines which of them
 * match, and which may match if more text follows (PCRE2's partial match). It reads a text once, whatever the number of
 * expressions, and can continue from any state: files in a directory share the state of the directory's path.
 */
import { word, type CharSet } from './charset.ts';
import {
  contextOf,
  endOfText,
  holds,
  programOf,
  RegexSizeError,
  type Instruction,
  type RegexNode,
} from './program.ts';

/** Limit of instructions of all expressions together. */
const maxInstructions = 200_000;
/** Limits of cached states, at half a kilobyte each, and of the instructions that they refer to, at some 20 bytes each. */
const maxStates = 10_000;
const maxPlaces = 1_000_000;

const none: readonly number[] = [];

/** The state after reading a part of a text. Valid as long as it is referenced. */
export interface WalkState {
  /** Expressions that match what was read, whatever follows; in ascending order. */
  readonly matched: readonly number[];
  readonly members: readonly number[];
  /** The kind of the previous character, see {@link contextOf}. Constant unless an expression depends on it. */
  readonly before: number;
  readonly next: (WalkState | undefined)[];
  ended: readonly number[] | undefined;
  alive: readonly number[] | undefined;
}

/** Holds only memory, so it need not be disposed. */
export class PatternSet {
  readonly #program: readonly Instruction[];
  /** For each instruction, the index of its expression. */
  readonly #owner: Uint32Array;
  readonly #classOf = new Uint8Array(256);
  #classes = 0;
  readonly #asksBefore: boolean;
  readonly #visited: Uint32Array;
  #visit = 0;
  #states = new Map<string, WalkState>();
  #places = 0;
  #generation = 0;
  readonly start: WalkState;

  /** @throws {RegexSizeError} if all expressions together are too large. */
  constructor(trees: readonly RegexNode[]) {
    const program: Instruction[] = [];
    const owners: number[] = [];
    const starts: number[] = [];
    for (const [index, tree] of trees.entries()) {
      const offset = program.length;
      starts.push(offset);
      for (const instruction of programOf(tree)) {
        program.push(moved(instruction, offset));
        owners.push(index);
      }
      if (program.length > maxInstructions) throw new RegexSizeError('expressions too large together');
    }
    this.#program = program;
    this.#owner = Uint32Array.from(owners);
    this.#visited = new Uint32Array(program.length);
    this.#asksBefore = program.some(
      (each) => each.op === 'assert' && ['wordBoundary', 'noWordBoundary'].includes(each.assertion),
    );
    this.#sortBytes();
    this.start = this.#stateFor(starts, endOfText, none);
  }

  /** Groups bytes that no expression distinguishes into classes, for fewer and smaller states. */
  #sortBytes(): void {
    const sets = new Set<CharSet>();
    for (const instruction of this.#program) if (instruction.op === 'char') sets.add(instruction.set);
    const signatures = Array.from({ length: 256 }, (_, byte) => (this.#asksBefore && word(byte) ? 'w' : ''));
    let at = 0;
    for (const set of sets) {
      for (let byte = 0; byte < 256; byte++) if (set(byte)) signatures[byte] += `,${at}`;
      at++;
    }
    const classes = new Map<string, number>();
    for (const [byte, signature] of signatures.entries()) {
      let known = classes.get(signature);
      if (known === undefined) classes.set(signature, (known = classes.size));
      this.#classOf[byte] = known;
    }
    this.#classes = classes.size;
  }

  /** Reads `text`, starting at `from`, with one character for each byte. */
  walk(state: WalkState, text: string, from = 0): WalkState {
    const classOf = this.#classOf;
    let at = state;
    for (let index = from; index < text.length; index++) {
      const byte = text.charCodeAt(index);
      at = at.next[classOf[byte] ?? 0] ?? this.#step(at, byte);
    }
    return at;
  }

  /** Whether the result no longer depends on what follows. */
  isSettled(state: WalkState): boolean {
    return state.members.length === 0;
  }

  /** The expressions that match if the text ends here; in ascending order. */
  matches(state: WalkState): readonly number[] {
    return (state.ended ??= this.#closure(state, endOfText).matched);
  }

  /** The expressions that do not match here but may if more text follows; in ascending order. */
  alive(state: WalkState): readonly number[] {
    if (state.alive !== undefined) return state.alive;
    const matched = this.matches(state);
    const next = this.#closure(state, undefined, true);
    const found = new Set(next.matched);
    for (const at of next.places) found.add(this.#owner[at] ?? 0);
    for (const owner of matched) found.delete(owner);
    state.alive = [...found].sort((a, b) => a - b);
    return state.alive;
  }

  /** The expressions that match whatever follows; in ascending order. */
  certain(state: WalkState): readonly number[] {
    return this.#closure(state, undefined, false).matched;
  }

  #stateFor(members: number[], before: number, matched: readonly number[]): WalkState {
    members.sort((a, b) => a - b);
    const key = `${before}:${matched.join(',')}:${members.join(',')}`;
    const known = this.#states.get(key);
    if (known !== undefined) return known;
    if (this.#states.size >= maxStates || this.#places >= maxPlaces) this.#forget();
    this.#places += members.length;
    const state: WalkState = {
      matched,
      members,
      before,
      next: Array.from<WalkState | undefined>({ length: this.#classes }),
      ended: undefined,
      alive: undefined,
    };
    this.#states.set(key, state);
    return state;
  }

  /** Drops all cached states. States that are still referenced remain usable, but lead to new ones. */
  #forget(): void {
    for (const state of this.#states.values()) state.next.fill(undefined);
    this.#states = new Map();
    this.#places = 0;
    this.#generation++;
  }

  /** Increases when the cached states are dropped: a holder of many states should then drop them too, to save memory. */
  get generation(): number {
    return this.#generation;
  }

  #step(state: WalkState, byte: number): WalkState {
    const { matched, places } = this.#closure(state, byte);
    const members: number[] = [];
    for (const at of places) {
      const instruction = this.#program[at];
      if (instruction?.op === 'char' && instruction.set(byte) && !matched.includes(this.#owner[at] ?? 0)) {
        members.push(at + 1);
      }
    }
    const next = this.#stateFor(members, this.#asksBefore ? contextOf(byte) : 0x20, matched);
    state.next[this.#classOf[byte] ?? 0] = next;
    return next;
  }

  /**
   * The `char` instructions that can be reached without reading a character, and the expressions that match by then. If
   * `after` is undefined, any text may follow; `assumed` is then the result of assertions about it.
   */
  #closure(
    state: WalkState,
    after: number | undefined,
    assumed = false,
  ): { matched: readonly number[]; places: number[] } {
    const places: number[] = [];
    const stack = [...state.members];
    let matched: number[] | undefined;
    this.#visit++;
    for (let at = stack.pop(); at !== undefined; at = stack.pop()) {
      if (this.#visited[at] === this.#visit) continue;
      this.#visited[at] = this.#visit;
      const instruction = this.#program[at];
      if (instruction === undefined) continue;
      switch (instruction.op) {
        case 'match':
          matched ??= [...state.matched];
          matched.push(this.#owner[at] ?? 0);
          break;
        case 'char':
          places.push(at);
          break;
        case 'jump':
          stack.push(instruction.to);
          break;
        case 'split':
          stack.push(instruction.first, instruction.second);
          break;
        case 'assert':
          if (
            after === undefined
              ? instruction.assertion === 'beginText'
                ? state.before === endOfText
                : assumed
              : holds(instruction.assertion, state.before, after)
          ) {
            stack.push(at + 1);
          }
          break;
      }
    }
    return { matched: matched?.sort((a, b) => a - b) ?? state.matched, places };
  }
}

function moved(instruction: Instruction, offset: number): Instruction {
  if (instruction.op === 'jump') return { op: 'jump', to: instruction.to + offset };
  if (instruction.op !== 'split') return instruction;
  return { op: 'split', first: instruction.first + offset, second: instruction.second + offset };
}
