import { printable } from '../output/printable.ts';

export interface Problem {
  readonly file: string;
  /** From 1; `undefined` if the line is unknown. */
  readonly line?: number | undefined;
  /** From 1: which of the file's documents. */
  readonly document?: number | undefined;
  /** `Widget default/web`. */
  readonly object?: string | undefined;
  /** `spec.traps[0].path`. */
  readonly field?: string | undefined;
  readonly why: string;
}

/** `a.yaml:7: document 2, Widget default/web, spec.parts[0].path: Required value`. One line. */
export function describeProblem({ file, line, document, object, field, why }: Problem): string {
  const place = line === undefined ? file : `${file}:${line}`;
  const parts = [document === undefined ? undefined : `document ${document}`, object, field];
  const subject = parts.filter((part) => part !== undefined && part !== '').join(', ');
  return printable(
    `${place}: ${subject === '' ? '' : `${subject}: `}${why.replaceAll(/\s*\n\s*/g, ' ').trim()}`,
  );
}
