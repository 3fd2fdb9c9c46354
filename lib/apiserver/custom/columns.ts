/**
 * Printer columns of custom resources (apiextensions-apiserver `pkg/registry/customresource/tableconvertor`).
 */
import { ageSince } from '../resources/age.ts';
import type { Column } from '../resources/resource.ts';
import { goJsonNumber } from '../../cel/go-text.ts';
import { canonicalJson } from '../../json/json.ts';
import type { CrdColumn } from './crd.ts';
import { firstAt, parseJsonPath } from './json-path.ts';

/** The only column besides the name of a kind without printer columns. */
const ageColumn: CrdColumn = {
  name: 'Age',
  type: 'date',
  format: '',
  description: 'When the object was created, according to the clock of the server.',
  priority: 0,
  jsonPath: '.metadata.creationTimestamp',
};

export function columnsOf(columns: readonly CrdColumn[]): readonly Column[] {
  return (columns.length === 0 ? [ageColumn] : columns).map(columnOf);
}

function columnOf({ name, type, format, description, priority, jsonPath }: CrdColumn): Column {
  const path = parseJsonPath(jsonPath);
  const cellType = type as Column['type'];
  return {
    name,
    type: cellType,
    format,
    description:
      description === ''
        ? `Custom resource definition column (in JSONPath format): ${jsonPath}`
        : description,
    priority,
    cell: (object, now) => (path === undefined ? null : cellOf(cellType, firstAt(object, path), now)),
  };
}

function cellOf(type: Column['type'], value: unknown, now: Date): ReturnType<Column['cell']> {
  if (value === undefined || value === null) return null;
  switch (type) {
    case 'string':
      if (typeof value === 'string') return value;
      return typeof value === 'number' ? goJsonNumber(value) : canonicalJson(value);
    case 'integer':
      return typeof value === 'number' ? Math.trunc(value) : null;
    case 'number':
      return typeof value === 'number' ? value : null;
    case 'boolean':
      return typeof value === 'boolean' ? value : null;
    case 'date':
      return typeof value === 'string' ? dateCell(value, now) : null;
  }
}

function dateCell(value: string, now: Date): string {
  if (value === '') return '<unknown>';
  return /^\d{4}-\d\d-\d\dT/.test(value) ? ageSince(value, now) : '<invalid>';
}
