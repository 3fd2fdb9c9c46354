/**
 * The patch (RFC 6902) that turns one JSON value into another: the answer of a webhook if a policy mutates.
 */
import { deepEqual, isObject } from '../../../lib/json/json.ts';

export type PatchOperation =
  | { readonly op: 'add' | 'replace'; readonly path: string; readonly value: unknown }
  | { readonly op: 'remove'; readonly path: string };

/** Values nested more deeply are replaced as a whole. */
const MAX_DEPTH = 200;

/** The operations; empty if the values are equal. Objects are compared member by member; in lists, equal items at both ends are kept. */
export function diffJson(from: unknown, to: unknown): PatchOperation[] {
  const operations: PatchOperation[] = [];
  diff(from, to, '', 0, operations);
  return operations;
}

function diff(from: unknown, to: unknown, path: string, depth: number, out: PatchOperation[]): void {
  if (from === to) return;
  if (depth < MAX_DEPTH && Array.isArray(from) && Array.isArray(to)) diffLists(from, to, path, depth, out);
  else if (depth < MAX_DEPTH && isObject(from) && isObject(to)) diffRecords(from, to, path, depth, out);
  else if (!deepEqual(from, to)) out.push({ op: 'replace', path, value: to });
}

function diffRecords(
  from: Record<string, unknown>,
  to: Record<string, unknown>,
  path: string,
  depth: number,
  out: PatchOperation[],
): void {
  for (const key of Object.keys(from)) {
    if (!Object.hasOwn(to, key)) out.push({ op: 'remove', path: `${path}/${escaped(key)}` });
  }
  for (const [key, value] of Object.entries(to)) {
    const own = `${path}/${escaped(key)}`;
    if (Object.hasOwn(from, key)) diff(from[key], value, own, depth + 1, out);
    else out.push({ op: 'add', path: own, value });
  }
}

function diffLists(
  from: readonly unknown[],
  to: readonly unknown[],
  path: string,
  depth: number,
  out: PatchOperation[],
): void {
  const shorter = Math.min(from.length, to.length);
  let start = 0;
  while (start < shorter && deepEqual(from[start], to[start])) start++;
  let end = 0;
  while (end < shorter - start && deepEqual(from[from.length - 1 - end], to[to.length - 1 - end])) end++;
  const [fromEnd, toEnd] = [from.length - end, to.length - end];
  let at = start;
  for (; at < fromEnd && at < toEnd; at++) diff(from[at], to[at], `${path}/${at}`, depth + 1, out);
  // From the end, so that the other indexes stay valid.
  for (let last = fromEnd - 1; last >= at; last--) out.push({ op: 'remove', path: `${path}/${last}` });
  for (; at < toEnd; at++) out.push({ op: 'add', path: `${path}/${at}`, value: to[at] });
}

/** Escapes a key of a JSON pointer (RFC 6901). */
function escaped(key: string): string {
  return key.replaceAll('~', '~0').replaceAll('/', '~1');
}
