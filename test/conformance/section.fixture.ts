/** Tables of what other projects specify, judged section by section. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

/** A part of a specification that does not apply here. */
interface NotApplicable {
  readonly what: string;
  readonly why: string;
}

export interface Section<Case> {
  readonly name: string;
  readonly cases?: readonly Case[];
  readonly notApplicable?: readonly NotApplicable[];
}

/** Returns the error in a case; `undefined` if it is right. */
type Judge<Case> = (one: Case) => Promise<string | undefined> | string | undefined;

/** A test for each section, which prints how many of its cases are right, wrong, and not applicable, with the reasons. */
export function conformance<Case>(
  project: string,
  sections: readonly Section<Case>[],
  judge: Judge<Case>,
): void {
  suite(project, () => {
    for (const { name, cases = [], notApplicable = [] } of sections) {
      test(name, async (context) => {
        const wrong: string[] = [];
        for (const one of cases) {
          const problem = await judge(one);
          if (problem !== undefined) wrong.push(problem);
        }
        const counts = `${cases.length - wrong.length} right, ${wrong.length} wrong, ${notApplicable.length} not applicable`;
        const reasons = notApplicable.map(({ what, why }) => `${what}: ${why}`).join('; ');
        context.diagnostic(`${project}, ${name}: ${counts}${reasons === '' ? '' : ` (${reasons})`}`);
        assert.deepEqual(wrong, []);
      });
    }
  });
}

/** An expression that must be true, or one that must fail, with the beginning of its error. */
export type ExpressionCase = string | readonly [expression: string, error: string];

export const nothingHere = (
  what: string,
  why: string,
): { readonly notApplicable: readonly NotApplicable[] } => ({
  notApplicable: [{ what, why }],
});
