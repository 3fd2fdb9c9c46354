/** Models of objects for mutating policies: from the embedded API. */
import type { Resource } from '../../../lib/apiserver/resources/resource.ts';
import type { ObjectModel } from '../engine/evaluator.ts';

/** Completes an object as the API server does before it stores it. */
export function modelOf({ model }: Pick<Resource, 'model'>): ObjectModel {
  return {
    get applyType() {
      return model.applyType;
    },
    complete(object) {
      model.decode?.(object);
      model.schema.applyDefaults(object);
      // Which is checked for all kinds alike, elsewhere.
      const { metadata } = object;
      const unknown = model.schema.prune(object);
      object['metadata'] = metadata;
      // Custom resources have no type in Go: their unknown fields are left out when they are stored.
      if (model.decode === undefined || unknown.length === 0) return;
      throw new Error(`strict decoding error: unknown field ${unknown.map((one) => `"${one}"`).join(', ')}`);
    },
  };
}
