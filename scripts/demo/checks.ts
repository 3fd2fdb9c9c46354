/** The expected and the actual results. */
import { renderTable, type Row } from '../../lib/output/table.ts';
import type { Screen } from './screen.ts';
import type { Shown } from './shown.ts';

interface Check {
  readonly what: string;
  readonly expected: string;
  readonly seen: string;
}

export class Checks {
  readonly #checks: Check[] = [];

  /** Both in the same words: it is right when they are the same. */
  add(what: string, expected: string, seen: string): void {
    this.#checks.push({ what, expected, seen });
  }

  get shown(): Shown {
    return { total: this.#checks.length, failed: this.#checks.filter(isWrong).length };
  }

  table({ widthColumns, colour }: Pick<Screen, 'widthColumns' | 'colour'>): string {
    const rows = this.#checks.map((check): Row => {
      const { what, expected, seen } = check;
      const wrong = isWrong(check);
      return {
        cells: [what, expected, wrong ? { text: 'FAILED', style: 'red' } : { text: 'ok', style: 'green' }],
        note: wrong ? `seen: ${seen}` : undefined,
      };
    });
    return renderTable(rows, { head: ['CHECKED', 'EXPECTED', ''], widthColumns, colour });
  }
}

function isWrong({ expected, seen }: Check): boolean {
  return expected !== seen;
}
