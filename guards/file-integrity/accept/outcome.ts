/** The outcome of a request to accept findings of a node, according to its status. */
import type { FileIntegrityNodeStatus } from '../api.ts';
import type { NodePlan } from './plan.ts';
import { counted } from '../../../lib/output/words.ts';

export function outcomeOf(
  plan: NodePlan,
  status: FileIntegrityNodeStatus | undefined,
): { readonly text: string; readonly isTaken: boolean } {
  if (status === undefined) return { text: 'its status is gone; the node may be gone too', isTaken: false };
  const { lastResult, findings = [], omittedFindings = 0 } = status;
  if (lastResult?.condition === 'Errored')
    return {
      text: `it has an error: ${visible(lastResult.errorMessage ?? 'no details')}`,
      isTaken: false,
    };
  const still = new Set(findings.map(({ path, change }) => `${change} ${path}`));
  const left = plan.findings.filter(({ path, change }) => still.has(`${change} ${path}`));
  const taken = plan.findings.length - left.length;
  const rest = findings.length + omittedFindings;
  const others =
    rest === 0
      ? 'no differences from the baseline are left'
      : `${counted(rest, 'finding')} ${rest === 1 ? 'is' : 'are'} left`;
  const first = left.slice(0, 3).map(({ path }) => visible(path));
  return {
    text:
      left.length === 0
        ? `accepted (${taken}${plan.omitted > 0 ? ' and findings that were only counted' : ''}); ${others}`
        : `${taken} of ${plan.findings.length} accepted; still different: ${first.join(', ')}${left.length > 3 ? ', ...' : ''}`,
    isTaken: left.length === 0,
  };
}

/** Escapes unprintable characters: names written by agents have none, but others may write to the API too. */
export function visible(path: string): string {
  return path.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '?');
}
