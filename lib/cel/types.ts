/** The types that expressions see. */

export type CelKind =
  | 'int'
  | 'double'
  | 'bool'
  | 'string'
  | 'bytes'
  | 'duration'
  | 'timestamp'
  | 'dyn'
  | 'list'
  | 'map'
  | 'object';

export interface CelType {
  readonly kind: CelKind;
  /** Type of a list's items or a map's values. */
  readonly element?: CelType;
  /** Fields of an object, keyed by their name in CEL. */
  readonly fields?: ReadonlyMap<string, CelField>;
}

export interface CelField {
  /** The field's name in JSON. */
  readonly name: string;
  readonly type: CelType;
}
