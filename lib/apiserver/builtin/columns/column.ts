/**
 * Columns of Tables, as kubectl prints them (kubernetes `pkg/printers/internalversion/printers.go` as of 1.35 has the
 * names, types, priorities and texts of all of them).
 */
import { ageSince } from '../../resources/age.ts';
import type { Column } from '../../resources/resource.ts';
import type { JsonObject } from '../../../json/json.ts';
import { objectsAt, textAt } from '../../../json/fields.ts';
import { selectorText } from '../subresources.ts';

type Cell = ReturnType<Column['cell']>;

interface Options {
  readonly type?: Column['type'];
  readonly format?: string;
  /** Whether only `kubectl get -o wide` shows the column. */
  readonly wide?: boolean;
}

export function column(
  name: string,
  description: string,
  cell: (object: JsonObject, now: Date) => Cell,
  { type = 'string', format = '', wide = false }: Options = {},
): Column {
  return { name, type, format, description, priority: wide ? 1 : 0, cell };
}

export const nameColumn: Column = column(
  'Name',
  'Name of the object, unique among those of its kind in its namespace.',
  (object) => textAt(object, 'metadata', 'name'),
  { format: 'name' },
);

/** Time since a timestamp; `<unknown>` without one. */
export function since(timestamp: string, now: Date): string {
  return timestamp === '' ? '<unknown>' : ageSince(timestamp, now);
}

export const ageColumn: Column = column('Age', 'How long ago the object was created.', (object, now) =>
  since(textAt(object, 'metadata', 'creationTimestamp'), now),
);

/** The columns of kinds that no controller acts on here: Kubernetes' other columns show what its controllers do. */
export const storedColumns: readonly Column[] = [nameColumn, ageColumn];

/** The columns of kinds for which Kubernetes has no special ones. */
export const plainColumns: readonly Column[] = [
  nameColumn,
  column(
    'Created At',
    'When the object was created.',
    (object) => textAt(object, 'metadata', 'creationTimestamp'),
    { type: 'date' },
  ),
];

export function containerColumns(specOf: (object: JsonObject) => JsonObject): readonly Column[] {
  const joined = (field: string) => (object: JsonObject) =>
    objectsAt(specOf(object), 'containers')
      .map((container) => textAt(container, field))
      .join(',');
  return [
    column('Containers', 'Names of the containers of the template.', joined('name'), { wide: true }),
    column('Images', 'Images of the containers of the template.', joined('image'), { wide: true }),
  ];
}

/** Labels as `a=b,c=d`; `<none>` for no label. */
export function labelsText(labels: JsonObject): string {
  const texts = Object.keys(labels)
    .sort()
    .map((name) => `${name}=${String(labels[name])}`);
  return texts.length === 0 ? '<none>' : texts.join(',');
}

/** A label selector as kubectl prints it: `<none>` if it selects everything. */
export function shownSelector(selector: unknown): string {
  return selectorText(selector) || '<none>';
}
