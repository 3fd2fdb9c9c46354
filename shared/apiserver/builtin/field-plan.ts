/**
 * Where in the objects of a kind something has to be done that a compiled schema does not do: quantities and times are
 * brought into their canonical form, and an empty text counts as absent where its field has a default, because Go cannot tell
 * the two apart.
 *
 * @module
 */
import { fieldError, type Cause } from '../schema/field-error.ts';
import { fieldOf, isObject, setField, type JsonObject } from '../schema/json.ts';
import { microTimeName, objectMetaName, quantityName, timeName } from './facts/names.ts';
import { refIn } from './inline.ts';
import { canonicalAmount, parseQuantity, quantityProblem } from './quantities.ts';
import { canonicalTime } from './times.ts';

type Shape = 'object' | 'list' | 'map';

/** One definition's part of the plan. */
export interface FieldPlan {
  /** Fields that are a quantity, and those that are maps of them. */
  readonly single: readonly string[];
  readonly amounts: readonly string[];
  /** Times, and whether they are those with six digits. */
  readonly times: readonly (readonly [string, boolean])[];
  /** Texts with a default. */
  readonly texts: readonly (readonly [string, string])[];
  readonly inner: readonly (readonly [string, Shape, FieldPlan])[];
}

const nothing: FieldPlan = { single: [], amounts: [], times: [], texts: [], inner: [] };

/** The plan of a definition; its parts are shared by the plans of one `plans`. */
export function planOf(
  definitions: ReadonlyMap<string, JsonObject>,
  name: string,
  plans: Map<string, FieldPlan>,
): FieldPlan {
  const known = plans.get(name);
  if (known !== undefined) return known;
  // While it is being made: a definition that contains itself has nothing of the kind in it.
  plans.set(name, nothing);
  const plan = makePlan(definitions, name, plans);
  plans.set(name, plan);
  return plan;
}

function makePlan(
  definitions: ReadonlyMap<string, JsonObject>,
  name: string,
  plans: Map<string, FieldPlan>,
): FieldPlan {
  const single: string[] = [];
  const amounts: string[] = [];
  const times: [string, boolean][] = [];
  const texts: [string, string][] = [];
  const inner: [string, Shape, FieldPlan][] = [];
  const properties = definitions.get(name)?.['properties'];
  for (const [field, property] of Object.entries(isObject(properties) ? properties : {})) {
    if (!isObject(property)) continue;
    const target = refIn(property);
    const [shape, item] = contentOf(property);
    const inside = target ?? (item === undefined ? undefined : refIn(item));
    // Metadata is read for all kinds alike, by resources/metadata-fields.ts.
    if (target === objectMetaName) continue;
    if (target === quantityName) single.push(field);
    else if (target === timeName || target === microTimeName) times.push([field, target === microTimeName]);
    else if (inside === quantityName) amounts.push(field);
    else if (inside !== undefined) {
      const plan = planOf(definitions, inside, plans);
      if (!isEmpty(plan)) inner.push([field, shape, plan]);
    } else if (typeof property['default'] === 'string' && property['default'] !== '') {
      texts.push([field, property['default']]);
    }
  }
  return { single, amounts, times, texts, inner };
}

function contentOf(property: JsonObject): [Shape, JsonObject | undefined] {
  const { items, additionalProperties } = property;
  if (isObject(items)) return ['list', items];
  if (isObject(additionalProperties)) return ['map', additionalProperties];
  return ['object', undefined];
}

function isEmpty({ single, amounts, times, texts, inner }: FieldPlan): boolean {
  return single.length + amounts.length + times.length + texts.length + inner.length === 0;
}

/** Calls back for each object that a part of the plan is about. */
function walk(
  value: unknown,
  plan: FieldPlan,
  path: string,
  visit: (object: JsonObject, plan: FieldPlan, path: string) => void,
): void {
  if (!isObject(value)) return;
  visit(value, plan, path);
  for (const [field, shape, inside] of plan.inner) {
    const content = fieldOf(value, field);
    const at = path === '' ? field : `${path}.${field}`;
    if (shape === 'object') walk(content, inside, at, visit);
    else if (Array.isArray(content)) {
      content.forEach((item, index) => walk(item, inside, `${at}[${index}]`, visit));
    } else if (isObject(content)) {
      for (const name of Object.keys(content)) walk(content[name], inside, `${at}[${name}]`, visit);
    }
  }
}

/** Does what is to be done, in place. Values that are no quantities stay, for {@link planCauses}. */
export function applyPlan(object: JsonObject, plan: FieldPlan): void {
  walk(object, plan, '', (part, { single, amounts, times, texts }) => {
    for (const [field, isMicro] of times) {
      const value = fieldOf(part, field);
      if (value !== undefined) part[field] = canonicalTime(value, isMicro);
    }
    for (const [field, value] of texts) if (fieldOf(part, field) === '') part[field] = value;
    for (const field of single) {
      const value = fieldOf(part, field);
      if (typeof value === 'number' || typeof value === 'bigint') part[field] = String(value);
    }
    for (const field of amounts) {
      const map = fieldOf(part, field);
      if (!isObject(map)) continue;
      for (const name of Object.keys(map)) setField(map, name, canonicalAmount(map[name]));
    }
  });
}

/** The values that should be quantities and are none. */
export function planCauses(object: JsonObject, plan: FieldPlan): Cause[] {
  const causes: Cause[] = [];
  const check = (value: unknown, path: string): void => {
    if (value === undefined || parseQuantity(value) !== undefined) return;
    causes.push(fieldError.invalid(path, value, quantityProblem));
  };
  walk(object, plan, '', (part, { single, amounts }, path) => {
    const at = (field: string): string => (path === '' ? field : `${path}.${field}`);
    for (const field of single) check(fieldOf(part, field), at(field));
    for (const field of amounts) {
      const map = fieldOf(part, field);
      if (isObject(map)) for (const name of Object.keys(map)) check(map[name], `${at(field)}[${name}]`);
    }
  });
  return causes;
}
