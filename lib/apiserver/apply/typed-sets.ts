import { FieldSet } from './field-set.ts';
import type { PathElement } from './path-element.ts';
import { fieldType, type ApplyType } from './type.ts';

/**
 * The set, plus the parents of its members that are fields named by the schema: the owner of `.spec.template.spec.x` also
 * keeps `.spec.template`, which has no owner of its own. Keys of maps and items of lists are not added.
 */
export function withNamedParents(set: FieldSet, type: ApplyType): FieldSet {
  const whole = new FieldSet();
  for (const element of set.members) whole.members.add(element);
  for (const [element, child] of set.children) {
    if (type.map !== undefined && element.startsWith('f:') && type.map.fields.has(element.slice(2))) {
      whole.members.add(element);
    }
    whole.children.set(element, withNamedParents(child, typeAt(type, element)));
  }
  return whole;
}

/**
 * The set for a type whose lists or maps became atomic after the set was written: owners of fields in them
 * now own the whole. Returns the same set if it needs no change.
 */
export function conformed(set: FieldSet, type: ApplyType): FieldSet {
  const changed = new Map<PathElement, FieldSet | undefined>();
  for (const [element, child] of set.children) {
    const inner = typeAt(type, element);
    const after = isOneValue(inner) ? undefined : conformed(child, inner);
    if (after !== child) changed.set(element, after);
  }
  if (changed.size === 0) return set;
  const whole = new FieldSet();
  for (const element of set.members) whole.members.add(element);
  for (const [element, child] of set.children) {
    const after = changed.has(element) ? changed.get(element) : child;
    if (after === undefined) whole.members.add(element);
    else whole.children.set(element, after);
  }
  return whole;
}

function typeAt(type: ApplyType, element: PathElement): ApplyType {
  if (element.startsWith('f:')) {
    return type.map === undefined ? nothing : fieldType(type.map, element.slice(2));
  }
  return type.list?.items ?? nothing;
}

const nothing: ApplyType = { scalar: undefined, list: undefined, map: undefined };

/** Whether the type is certainly atomic: data without a schema may be of any kind. */
function isOneValue({ scalar, list, map }: ApplyType): boolean {
  if (scalar !== undefined) return false;
  if (map !== undefined) return map.atomic && list === undefined;
  return list?.relation === 'atomic';
}
