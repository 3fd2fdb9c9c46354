/** Finds the selectors that may select a pod without evaluating each of them. */
import type { Labels, LabelSelector } from '../../../lib/kube/selectors/selectors.ts';

/** In place of the name of a namespace: any namespace. */
export const anyNamespace = '';

/**
 * An index of items by one requirement of their selectors: a label with a value, or the existence of a label. An
 * item whose selector has neither (`{}`, `NotIn`, `DoesNotExist`) is evaluated for every pod of its namespace.
 */
export class SelectorIndex<T> {
  readonly #items = new Map<string, Set<T>>();

  add(item: T, namespace: string, selector: LabelSelector): void {
    for (const anchor of anchorsOf(selector)) {
      const key = keyOf(namespace, anchor);
      const items = this.#items.get(key);
      if (items === undefined) this.#items.set(key, new Set([item]));
      else items.add(item);
    }
  }

  delete(item: T, namespace: string, selector: LabelSelector): void {
    for (const anchor of anchorsOf(selector)) {
      const key = keyOf(namespace, anchor);
      const items = this.#items.get(key);
      items?.delete(item);
      if (items?.size === 0) this.#items.delete(key);
    }
  }

  /** Adds to `found` all items that may select a pod with these labels. */
  find(namespace: string, labels: Labels, found: Set<T>): void {
    // Usually there are no selectors yet while the objects of a cluster arrive.
    if (this.#items.size === 0) return;
    for (const scope of [namespace, anyNamespace]) {
      for (const item of this.#items.get(keyOf(scope, '')) ?? []) found.add(item);
      for (const [key, value] of Object.entries(labels)) {
        for (const item of this.#items.get(keyOf(scope, key)) ?? []) found.add(item);
        for (const item of this.#items.get(keyOf(scope, `${key}=${value}`)) ?? []) found.add(item);
      }
    }
  }
}

function anchorsOf({ requirements }: LabelSelector): readonly string[] {
  const valued = requirements
    .filter(({ operator }) => operator === '=' || operator === 'in')
    .toSorted((a, b) => a.values.length - b.values.length)[0];
  if (valued !== undefined) return valued.values.map((value) => `${valued.key}=${value}`);
  return [requirements.find(({ operator }) => operator === 'exists')?.key ?? ''];
}

function keyOf(namespace: string, anchor: string): string {
  return `${namespace} ${anchor}`;
}
