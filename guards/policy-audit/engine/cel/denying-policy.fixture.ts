/** The policy of the suite of runtimes, in CEL. */
import type { Evaluator } from '../evaluator.ts';
import { openCelEvaluator } from './open.ts';

/** Refuses objects of these names. */
export function denyingPolicy(denied: readonly string[]): Evaluator {
  const validation = {
    expression: '!(object.metadata.name in variables.denied)',
    messageExpression: "object.metadata.name + ' is denied'",
  };
  return openCelEvaluator({
    variables: [{ name: 'denied', expression: JSON.stringify(denied) }],
    validations: denied.length === 0 ? [] : [validation],
  });
}
