/** Answers in YAML. */
import { Document, isScalar, visit } from 'yaml';

/** Read as something else by Go's YAML (octal numbers of YAML 1.2, the `=` and `<<` of 1.1), not by ours. */
const ambiguous = /^(?:[-+]?0[oO].*|=|<<)$/;

const mergeTag = 'tag:yaml.org,2002:merge';

/**
 * A value as YAML that means the same to readers of YAML 1.1 (Go's, which kubectl uses) and of 1.2: `yes` and `1_0`
 * are quoted.
 */
export function toYaml(value: unknown): string {
  const document = new Document(value, {
    version: '1.1',
    aliasDuplicateObjects: false,
    // With it, every `<<` is a merge, also a quoted one.
    customTags: (tags) => tags.filter((tag) => typeof tag === 'string' || tag.tag !== mergeTag),
  });
  visit(document, {
    Scalar(_key, node) {
      if (isScalar(node) && typeof node.value === 'string' && ambiguous.test(node.value)) {
        node.type = 'QUOTE_DOUBLE';
      }
    },
  });
  return document.toString({ lineWidth: 0, directives: false });
}
