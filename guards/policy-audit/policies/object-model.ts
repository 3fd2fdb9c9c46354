/** What the embedded API knows about the kinds of objects, for mutating policies. */
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
      // `metadata` is checked elsewhere, in the same way for all kinds.
      const { metadata } = object;
      const unknown = model.schema.prune(object);
      object['metadata'] = metadata;
      // Custom resources have no Go type: their unknown fields are dropped when they are stored.
      if (model.decode === undefined || unknown.length === 0) return;
      throw new Error(`strict decoding error: unknown field ${unknown.map((one) => `"${one}"`).join(', ')}`);
    },
  };
}
