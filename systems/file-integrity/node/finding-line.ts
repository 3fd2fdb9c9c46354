/**
 * Findings as lines of JSON, for those who collect the agents' output.
 *
 * @module
 */
import type { FindingChange } from './findings.ts';

/**
 * `{"kind":"IntegrityFinding","fileIntegrity":"ns/name","node":"...","state":"found",...}` with the keys of a Finding behind that.
 * A path that is as in the baseline again has the state `gone`, one that was taken into it `accepted`.
 */
export function findingLine(fileIntegrity: string, node: string, { state, finding }: FindingChange): string {
  return JSON.stringify({ kind: 'IntegrityFinding', fileIntegrity, node, state, ...finding });
}
