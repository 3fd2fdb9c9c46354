// Shared by the tests of the store.
import assert from 'node:assert/strict';

import { RampartError } from '../../errors/errors.ts';
import type { ObjectKey, VersionedText } from './object.ts';

/** JSON with a mark in it and room for the version. */
export function text(mark: unknown): VersionedText {
  return { before: '{"metadata":{"resourceVersion":"', after: `"},"mark":${JSON.stringify(mark)}}` };
}

/** The mark that `text` has put in. */
export function markOf(json: string): unknown {
  return (JSON.parse(json) as { mark: unknown }).mark;
}

/** The version in a text. */
export function versionIn(json: string): string {
  return (JSON.parse(json) as { metadata: { resourceVersion: string } }).metadata.resourceVersion;
}

export function key(name: string, namespace = 'default', resource = 'pods'): ObjectKey {
  return { resource, namespace, name };
}

/** The argument of `create`. */
export function pod(
  name: string,
  mark: unknown = name,
  namespace = 'default',
): ObjectKey & { uid: string; text: VersionedText } {
  return { ...key(name, namespace), uid: `uid-${namespace}-${name}`, text: text(mark) };
}

/** For `assert.rejects`: an error of ours with this code, and these words in its message. */
export const refusal = (code: string, words: RegExp) => (error: unknown) => {
  assert.ok(error instanceof RampartError, String(error));
  assert.equal(error.code, code, error.message);
  assert.match(error.message, words);
  return true;
};
