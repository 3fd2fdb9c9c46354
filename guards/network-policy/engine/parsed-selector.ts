import {
  type LabelSelector,
  labelSelectorOf,
  type LabelSelectorObject,
  SelectorError,
} from '../../../lib/kube/selectors/selectors.ts';

/** Records a field that cannot be expressed. */
export type Refuse = (field: string, message: string) => void;
/** Records a field that applies in another way than its text suggests. */
export type Warn = (field: string, message: string) => void;

/**
 * @param consequence - What follows if the selector is malformed: a part of the message.
 * @returns undefined if it is malformed
 */
export function parseSelector(
  selector: LabelSelectorObject,
  field: string,
  refuse: Refuse,
  consequence: string,
): LabelSelector | undefined {
  try {
    return labelSelectorOf(selector);
  } catch (error) {
    if (!(error instanceof SelectorError)) throw error;
    refuse(field, `The selector is malformed (${error.message}): ${consequence}.`);
    return undefined;
  }
}
