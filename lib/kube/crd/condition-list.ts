import type { Condition } from '../object/conditions.ts';
import { integer, list, object, oneOf, optional, type Schema, string } from './schema.ts';

/** `metav1.Condition`, with the rules that Kubernetes itself puts on it (apimachinery, pkg/apis/meta/v1/types.go). */
const condition = object({
  type: string({
    description: 'The type of the condition, in CamelCase or example.com/CamelCase form.',
    maxLength: 316,
    pattern:
      '^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$',
  }),
  status: oneOf(['True', 'False', 'Unknown'], { description: 'Whether the condition holds.' }),
  observedGeneration: optional(
    integer({
      description: 'The metadata.generation that the condition was set for.',
      format: 'int64',
      minimum: 0,
    }),
  ),
  lastTransitionTime: string({ description: 'When the status last changed.', format: 'date-time' }),
  reason: string({
    description: 'The machine-readable reason for the status.',
    minLength: 1,
    maxLength: 1024,
    pattern: '^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$',
  }),
  message: string({
    description: 'A human-readable message with details about the status.',
    maxLength: 32_768,
  }),
});

/** A list of conditions, one of each type; written with `setCondition`. */
export function conditionList(): Schema<readonly Condition[]> {
  return list(condition, { description: 'The latest observations of the state.', mapKeys: ['type'] });
}
