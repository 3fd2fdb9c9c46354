/**
 * JSON Patch (RFC 6902) over JSON Pointer (RFC 6901), with the limits and the answers of the Kubernetes API
 * server: 400 for an invalid patch, 413 for too many operations, 422 for an operation that does not apply.
 *
 * Like the API server and unlike the RFC: `replace` sets a missing field, a `test` for null holds for a
 * missing field, and a negative index counts from the end (seen with kubectl 1.32).
 *
 * The npm package rfc6902 serves as an independent check in the tests and is not used here: it skips path
 * steps and drops fields named `__proto__` or `constructor`, which are ordinary data in a ConfigMap, finds
 * inherited members (`/toString`) and throws TypeErrors for a path into a text.
 */
import { cloneJson, deepEqual, fieldOf, isObject, setField, type JsonObject } from './json.ts';
import { extentOf, maxNesting } from './bounds.ts';
import { Refusal } from './refusal.ts';

/** A `test` operation does not hold. */
export class FailedTest extends Refusal {}

/** The API server's limit (k8s.io/apiserver pkg/endpoints/handlers/patch.go). */
const maxJsonPatchOperations = 10_000;

/** The total size that the copies of one patch may add (k8s.io/apiserver `JSONPatchMaxCopyBytes`). */
const maxCopyUnits = 3 * 1024 * 1024;

/**
 * Applies a JSON Patch. Neither argument is changed; the result shares what the patch leaves alone.
 *
 * @param patch the decoded request body; anything.
 * @throws {Refusal} 400, 413 or 422; then nothing of the patch is done.
 */
export function applyJsonPatch(original: JsonObject, patch: unknown): JsonObject {
  if (!Array.isArray(patch)) throw new Refusal(400, 'a JSON patch must be a list of operations');
  if (patch.length > maxJsonPatchOperations) {
    throw new Refusal(
      413,
      `The allowed maximum operations in a JSON patch is ${maxJsonPatchOperations}, got ${patch.length}`,
    );
  }
  const document = new PatchedDocument(original);
  for (const operation of patch as readonly unknown[]) {
    if (!isObject(operation)) throw new Refusal(400, 'an operation of a JSON patch must be an object');
    document.apply(operation);
  }
  return document.finish();
}

type Container = JsonObject | unknown[];

/** A place in the document: a field or an index of a container; without container, the document itself. */
interface Place {
  readonly container: Container | undefined;
  readonly token: string;
}

const root: Place = { container: undefined, token: '' };

class PatchedDocument {
  #document: unknown;
  /** Containers made by this patch: only these may be changed in place. */
  readonly #own = new WeakSet<Container>();
  #copiedUnits = 0;

  constructor(original: JsonObject) {
    this.#document = original;
  }

  apply(operation: JsonObject): void {
    const kind = fieldOf(operation, 'op');
    const path = pointerOf(operation, 'path', kind);
    switch (kind) {
      case 'add':
        return this.#put(path, valueOf(operation, path), kind);
      case 'remove':
        this.#take(path, kind);
        return;
      case 'replace':
        return this.#replace(path, valueOf(operation, path));
      case 'move': {
        const from = pointerOf(operation, 'from', kind);
        if (path.startsWith(`${from}/`)) {
          throw unprocessable(
            `move operation does not apply: ${from} cannot be moved into itself, to ${path}`,
          );
        }
        return this.#put(path, this.#take(from, kind), kind);
      }
      case 'copy':
        return this.#put(path, this.#copyOf(pointerOf(operation, 'from', kind)), kind);
      case 'test': {
        const value = valueOf(operation, path);
        if (!deepEqual(this.#tested(path), value)) {
          throw new FailedTest(422, `testing value ${path} failed: test failed`);
        }
        return;
      }
      default:
        throw unprocessable(`Unexpected kind: ${typeof kind === 'string' ? kind : 'unknown'}`);
    }
  }

  finish(): JsonObject {
    const result = this.#document;
    if (!isObject(result)) throw unprocessable('the result of the patch is not an object');
    // The operations may have nested values deeper than either argument was.
    if (extentOf(result, maxNesting).depth > maxNesting) {
      throw unprocessable(`the result of the patch is nested deeper than ${maxNesting} levels`);
    }
    return result;
  }

  #tested(path: string): unknown {
    const place = this.#locate(path, 'test', false);
    const { container, token } = place;
    if (container === undefined) return this.#document;
    return Array.isArray(container)
      ? container[indexOf(token, container, path, 'test')]
      : (read(place) ?? null);
  }

  #get(path: string, kind: string): unknown {
    const place = this.#locate(path, kind, false);
    const { container, token } = place;
    if (container === undefined) return this.#document;
    if (Array.isArray(container)) return container[indexOf(token, container, path, kind)];
    assertPresent(container, token, path, kind);
    return read(place);
  }

  #put(path: string, value: unknown, kind: string): void {
    const place = this.#locate(path, kind, true);
    if (place.container === undefined) this.#document = value;
    else if (Array.isArray(place.container)) {
      // 1: the position after the last item is valid too.
      const index =
        place.token === '-' ? place.container.length : indexOf(place.token, place.container, path, kind, 1);
      place.container.splice(index, 0, value);
    } else setField(place.container, place.token, value);
  }

  #take(path: string, kind: string): unknown {
    const { container, token } = this.#locate(path, kind, true);
    if (container === undefined) throw unprocessable(`${kind} operation does not apply to the whole object`);
    if (Array.isArray(container)) return container.splice(indexOf(token, container, path, kind), 1)[0];
    assertPresent(container, token, path, kind);
    const value = container[token];
    delete container[token];
    return value;
  }

  #replace(path: string, value: unknown): void {
    const { container, token } = this.#locate(path, 'replace', true);
    if (container === undefined) this.#document = value;
    else if (Array.isArray(container)) container[indexOf(token, container, path, 'replace')] = value;
    else setField(container, token, value);
  }

  /** Copies are bounded in sum: each could double the document. */
  #copyOf(from: string): unknown {
    const value = this.#get(from, 'copy');
    const { depth, sizeUnits } = extentOf(value, maxNesting, maxCopyUnits - this.#copiedUnits);
    this.#copiedUnits += sizeUnits;
    if (this.#copiedUnits > maxCopyUnits) {
      throw unprocessable(
        `Unable to complete the copy, the accumulated size increase of copy is ${this.#copiedUnits}, exceeding the limit ${maxCopyUnits}`,
      );
    }
    if (depth > maxNesting) throw unprocessable(`${from} is nested deeper than ${maxNesting} levels`);
    return cloneJson(value);
  }

  /** Walks to the container that holds the path's last step; for a write, everything on the way is made our own. */
  #locate(path: string, kind: string, write: boolean): Place {
    if (path === '') return root;
    if (!path.startsWith('/')) throw missing(kind, path);
    const tokens = path.slice(1).split('/').map(unescapeToken);
    const last = tokens.pop() ?? '';
    let current = this.#containerAt(root, path, kind, write);
    for (const token of tokens) current = this.#containerAt({ container: current, token }, path, kind, write);
    return { container: current, token: last };
  }

  #containerAt(place: Place, path: string, kind: string, write: boolean): Container {
    const value = place.container === undefined ? this.#document : read(place);
    if (!Array.isArray(value) && !isObject(value)) throw missing(kind, path);
    if (!write || this.#own.has(value)) return value;
    const own: Container = Array.isArray(value) ? [...(value as unknown[])] : { ...value };
    this.#own.add(own);
    const { container, token } = place;
    if (container === undefined) this.#document = own;
    else if (Array.isArray(container)) container[positionOf(token, container.length) ?? 0] = own;
    else setField(container, token, own);
    return own;
  }
}

function pointerOf(operation: JsonObject, field: 'path' | 'from', kind: unknown): string {
  const pointer = fieldOf(operation, field);
  if (typeof pointer === 'string') return pointer;
  const name = typeof kind === 'string' ? kind : 'unknown';
  throw unprocessable(`${name} operation failed to decode ${field}: missing value`);
}

function valueOf(operation: JsonObject, path: string): unknown {
  const value = fieldOf(operation, 'value');
  if (value === undefined) {
    throw unprocessable(`${String(operation['op'])} operation for path ${path} has no value: missing value`);
  }
  if (extentOf(value, maxNesting).depth > maxNesting) {
    throw unprocessable(`the value for path ${path} is nested deeper than ${maxNesting} levels`);
  }
  return value;
}

/** `~1` is a slash, `~0` a tilde, in this order: `~01` is the text `~1`. */
function unescapeToken(token: string): string {
  return token.replaceAll('~1', '/').replaceAll('~0', '~');
}

function read({ container, token }: Place): unknown {
  if (!Array.isArray(container)) return container === undefined ? undefined : fieldOf(container, token);
  const position = positionOf(token, container.length);
  return position === undefined ? undefined : container[position];
}

/**
 * Digits without leading zeros (RFC 6901, 4), or counted from the end; `undefined` if the list has no such
 * position.
 */
function positionOf(token: string, length: number): number | undefined {
  if (!/^-?(?:0|[1-9][0-9]{0,8})$/.test(token) || token === '-0') return undefined;
  const index = Number(token);
  const position = index < 0 ? length + index : index;
  return position >= 0 && position < length ? position : undefined;
}

function indexOf(token: string, list: readonly unknown[], path: string, kind: string, more = 0): number {
  const position = positionOf(token, list.length + more);
  if (position !== undefined) return position;
  throw unprocessable(
    `error in ${kind} for path: '${path}': Unable to access invalid index: ${token}: invalid index referenced`,
  );
}

function assertPresent(object: JsonObject, name: string, path: string, kind: string): void {
  if (Object.hasOwn(object, name)) return;
  const why = kind === 'copy' ? 'doc is missing key' : 'Unable to remove nonexistent key';
  throw unprocessable(`error in ${kind} for path: '${path}': ${why}: ${name}: missing value`);
}

function missing(kind: string, path: string): Refusal {
  return unprocessable(`${kind} operation does not apply: doc is missing path: "${path}": missing value`);
}

function unprocessable(message: string): Refusal {
  return new Refusal(422, message);
}
