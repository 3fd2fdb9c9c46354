/**
 * Maps findings about programs to OCSF's Detection Finding: it is opened when a program is not as its object specifies, and closed when it
 * is again.
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
      // A repair is an alert as well: someone had changed the program.
      is_alert: head.verdict !== 'running',
    },
  };
};
