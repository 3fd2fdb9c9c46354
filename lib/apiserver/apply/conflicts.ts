/** Conflicts of an apply, and their message: the 409 of the API server. */
import { Refusal } from '../../json/refusal.ts';
import type { Manager } from './managed-fields.ts';
import { pathText, type FieldPath } from './path-element.ts';

/** A field that would change and that another manager owns. */
export interface Conflict {
  readonly manager: Manager;
  readonly path: FieldPath;
}

/** The answer, with a cause of reason `FieldManagerConflict` for each field. */
export function conflictRefusal(conflicts: readonly Conflict[]): Refusal {
  const causes = conflicts.map(({ manager, path }) => ({
    reason: 'FieldManagerConflict',
    message: `conflict with ${managerText(manager)}`,
    field: pathText(path),
  }));
  return new Refusal(409, messageOf(conflicts), causes);
}

function messageOf(conflicts: readonly Conflict[]): string {
  const [only] = conflicts;
  if (only !== undefined && conflicts.length === 1) {
    return `Apply failed with 1 conflict: conflict with ${managerText(only.manager)}: ${pathText(only.path)}`;
  }
  const byManager = Map.groupBy(conflicts, ({ manager }) => managerText(manager));
  const text = [...byManager].flatMap(([name, fields]) => [
    `conflicts with ${name}:`,
    ...fields.map(({ path }) => `- ${pathText(path)}`),
  ]);
  return `Apply failed with ${conflicts.length} conflicts: ${text.join('\n')}`;
}

function managerText({ name, operation, apiVersion, subresource }: Manager): string {
  let text = JSON.stringify(name);
  if (subresource !== '') text += ` with subresource ${JSON.stringify(subresource)}`;
  return operation === 'Update' ? `${text} using ${apiVersion}` : text;
}
