/** A finding: one line, which opens into all that is known and the command to go on with. */
import { useState } from 'preact/hooks';

import { CopiedCommand } from './copied-command.tsx';
import { clock, objectText, shown } from './text.ts';
import type { ListedFinding } from './use-findings.ts';

const tones: Readonly<Record<string, string>> = { critical: 'bad', high: 'bad', medium: 'warn', low: 'warn' };
const headKeys: ReadonlySet<string> = new Set([
  ...['guard', 'kind', 'time', 'node', 'severity', 'object', 'policy', 'verdict', 'message'],
]);

interface FindingRowProps {
  readonly listed: ListedFinding;
  /** Whether it waits for a decision. */
  readonly isWaiting: boolean;
}

export function FindingRow({ listed: { finding, command, timeMs }, isWaiting }: FindingRowProps) {
  const [isOpen, setOpen] = useState(false);
  const { guard, verdict, severity, message, node, policy } = finding;
  const reason = typeof finding['reason'] === 'string' ? finding['reason'] : '';
  const who = [guard, node.name && `on ${node.name}`, policy && objectText(policy)]
    .filter(Boolean)
    .join(' · ');
  return (
    <details class="finding" onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>
        <time class="time dim" dateTime={finding.time}>
          {clock(timeMs)}
        </time>
        <span class="verdict">
          <span class={`tag ${tones[severity] ?? ''}`}>{shown(verdict)}</span>
        </span>
        <span class="body">
          <span class="what">{shown(message)}</span>
          <span class="who">
            {shown(who)}
            {isWaiting && <span class="waiting"> · needs a decision</span>}
          </span>
        </span>
      </summary>
      {isOpen && (
        <div class="more">
          {reason !== '' && <p>{shown(reason)}</p>}
          <dl>
            <Entry name="severity" value={severity} />
            {finding.object && <Entry name="object" value={objectText(finding.object)} />}
            {Object.entries(finding)
              .filter(([name]) => !headKeys.has(name) && name !== 'reason')
              .flatMap(([name, value]) => entriesOf(name, value))
              .map(([name, value]) => (
                <Entry key={name} name={name} value={value} />
              ))}
          </dl>
          {command !== null && <CopiedCommand command={command} node={node.name} />}
        </div>
      )}
    </details>
  );
}

function Entry({ name, value }: { readonly name: string; readonly value: string }) {
  return (
    <>
      <dt>{shown(name)}</dt>
      <dd class="mono">{shown(value)}</dd>
    </>
  );
}

/** The values in an object by path; empty ones are omitted. */
function entriesOf(name: string, value: unknown): [name: string, value: string][] {
  if (value === null || value === '') return [];
  if (typeof value === 'string') return [[name, value]];
  if (Array.isArray(value) && value.every((one) => typeof one !== 'object'))
    return value.length === 0 ? [] : [[name, value.map(String).join(' ')]];
  if (typeof value === 'object')
    return Object.entries(value).flatMap(([key, one]) => entriesOf(`${name}.${key}`, one));
  return [[name, JSON.stringify(value)]];
}
