/** The rows of findings, in parts that are drawn again only if they change: with thousands, all of them would take a second each time. */
import { Component } from 'preact';

import type { Decisions } from './decisions.ts';
import { FindingRow } from './finding-row.tsx';
import type { ListedFinding } from './use-findings.ts';

const PART = 50;

interface FindingRowsProps {
  readonly findings: readonly ListedFinding[];
  readonly decisions: Decisions;
}

export function FindingRows({ findings, decisions }: FindingRowsProps) {
  // Grouped by number: new findings change only the first part.
  const parts = Map.groupBy(findings, ({ number }) => Math.floor(number / PART));
  return (
    <div>
      {[...parts].map(([part, rows]) => (
        <Part key={part} rows={rows} waiting={rows.map((one) => decisions.isOpen(one))} />
      ))}
    </div>
  );
}

interface PartProps {
  readonly rows: readonly ListedFinding[];
  /** Whether each waits for a decision. */
  readonly waiting: readonly boolean[];
}

class Part extends Component<PartProps> {
  override shouldComponentUpdate({ rows, waiting }: PartProps): boolean {
    const { rows: before, waiting: waitedBefore } = this.props;
    return (
      rows.length !== before.length ||
      rows.some((one, at) => one !== before[at] || waiting[at] !== waitedBefore[at])
    );
  }

  override render() {
    const { rows, waiting } = this.props;
    return (
      <div class="part">
        {rows.map((one, at) => (
          <FindingRow key={one.number} listed={one} isWaiting={waiting[at] === true} />
        ))}
      </div>
    );
  }
}
