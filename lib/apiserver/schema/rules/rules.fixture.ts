/** Short forms for the tests of rules. */
export const text = { type: 'string', maxLength: 20 };
export const integer = { type: 'integer' };
export const object = (properties: object, extra: object = {}): object => ({
  type: 'object',
  properties,
  ...extra,
});
export const rule = (source: string, extra: object = {}): object => ({
  'x-kubernetes-validations': [{ rule: source, ...extra }],
});
export const failed = (source: string, field = 'spec', value = ''): string =>
  `${field}: Invalid value: ${value}failed rule: ${source}`;
