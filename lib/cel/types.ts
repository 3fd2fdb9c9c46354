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
  /** Items of a list, values of a map. */
  readonly element?: CelType;
  /** Fields of an object by their name in CEL. */
  readonly fields?: ReadonlyMap<string, CelField>;
}

export interface CelField {
  /** The name in JSON. */
  readonly name: string;
  readonly type: CelType;
}
