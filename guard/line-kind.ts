/** Lines that guards write for people and machines, as `rampart alerts` reads them. */

/** One kind of line of a guard: one JSON object, told apart from all other lines by how it begins. */
export interface LineKind {
  /** How each line of the kind begins, and no other: `{"kind":"IntegrityFinding",`. */
  readonly start: string;
  /** What the line says; undefined where it is cut, or another program's. */
  parse(line: string): Line | undefined;
}

/** `undefined` where there is no namespace. */
export type Place = readonly [namespace: string | undefined, name: string];

/** What filters and the order of lines go by. */
export interface Line {
  /** Nanoseconds since 1970. */
  readonly timeNs: bigint;
  /** The object of the user that asked for it. */
  readonly policy: Place;
  /** The pod that it is about, or that did it; `['', '']`-like where there is none: `[undefined, '']`. */
  readonly pod: Place;
  /** Of the file that it is about; undefined where it is about none. */
  readonly path?: string;
  /** As one line for a person, without a newline. */
  pretty(options: PrettyLineOptions): string;
}

export interface PrettyLineOptions {
  readonly colour: boolean;
  /** Lines of another day begin with their date. */
  readonly nowMs: number;
}
