/** Shown as long as no guard has objects: an example for each guard, to copy. */
import bpfPrograms from '../examples/bpf-programs.yaml?raw';
import fileAccess from '../examples/file-access.yaml?raw';
import fileIntegrity from '../examples/file-integrity.yaml?raw';
import networkPolicy from '../examples/network-policy.yaml?raw';
import policyAudit from '../examples/policy-audit.yaml?raw';
import { CopyButton } from './copied-command.tsx';

const starters: readonly (readonly [guard: string, yaml: string])[] = [
  ['file-access', fileAccess],
  ['file-integrity', fileIntegrity],
  ['network-policy', networkPolicy],
  ['policy-audit', policyAudit],
  ['bpf-programs', bpfPrograms],
];

export function Starters() {
  return (
    <section class="card starters" aria-labelledby="starters-title">
      <div class="head">
        <h2 id="starters-title">Where to begin</h2>
        <span class="dim">
          Nothing is asked for yet. Copy one of these, change it, and apply it:{' '}
          <code>kubectl apply -f -</code>
        </span>
      </div>
      {starters.map(([guard, yaml]) => (
        <details key={guard}>
          <summary>
            <span class="name">{guard}</span> <span class="dim">{questionOf(yaml)}</span>
          </summary>
          <div class="yaml">
            <pre tabIndex={0} role="region" aria-label={`Example of ${guard}`}>
              {yaml.trimEnd()}
            </pre>
            <CopyButton text={yaml} what={`the example of ${guard}`} />
          </div>
        </details>
      ))}
    </section>
  );
}

/** The question in the comment that an example begins with. */
function questionOf(yaml: string): string {
  return (yaml.split('\n')[0] ?? '').replace(/^# /, '');
}
