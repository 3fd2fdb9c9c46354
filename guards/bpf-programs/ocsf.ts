/**
 * Findings about programs as OCSF's Detection Finding: opened if one is not as its object specifies, closed
 * when it is again.
 */
import {
  findingActivity,
  findingAttributes,
  type OcsfMapping,
  resourceAttributes,
  textAt,
} from '../../guard/stream/ocsf.ts';

const closing: ReadonlySet<string> = new Set(['running', 'repaired']);

export const programOcsf: OcsfMapping = ({ head, keys }) => {
  const isClosed = closing.has(head.verdict);
  const places = [head.node.name, textAt(keys, 'attachPoint') ?? '', textAt(keys, 'function') ?? ''];
  return {
    class: 'detectionFinding',
    activity: findingActivity(isClosed),
    attributes: {
      ...findingAttributes(head, isClosed, places),
      ...resourceAttributes(head),
      status_detail: textAt(keys, 'reason'),
      // Including repairs: the program had been changed.
      is_alert: head.verdict !== 'running',
    },
  };
};
