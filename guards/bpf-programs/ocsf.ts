/** What happens to programs as OCSF's Detection Finding: opened where one is not as its object says, closed where it is again. */
import {
  findingActivity,
  findingAttributes,
  type OcsfMapping,
  resourceAttributes,
} from '../../guard/stream/ocsf.ts';

const closing: ReadonlySet<string> = new Set(['running', 'repaired']);

export const programOcsf: OcsfMapping = ({ head }) => {
  const isClosed = closing.has(head.verdict);
  return {
    class: 'detectionFinding',
    activity: findingActivity(isClosed),
    attributes: {
      ...findingAttributes(head, isClosed),
      ...resourceAttributes(head),
      is_alert: !isClosed,
    },
  };
};
