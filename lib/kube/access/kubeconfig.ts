/** Finds, reads and merges kubeconfig files. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { homedir } from 'node:os';
import { delimiter, dirname, isAbsolute, join, resolve } from 'node:path';

import type * as Yaml from 'yaml';

import { errorCodes, messageOf, RampartError } from '../../errors/errors.ts';

/** An entry of a list in a kubeconfig; its fields know their file and path. */
interface KubeconfigEntry {
  readonly name: string;
  readonly fields: Fields;
}

/** The merged content of several files. */
export interface Kubeconfig {
  readonly files: readonly string[];
  readonly currentContext: string | undefined;
  readonly contexts: ReadonlyMap<string, KubeconfigEntry>;
  readonly clusters: ReadonlyMap<string, KubeconfigEntry>;
  readonly users: ReadonlyMap<string, KubeconfigEntry>;
}

export interface KubeconfigOptions {
  /** This file and no other. Default: those of `KUBECONFIG`, else `~/.kube/config`. */
  readonly path?: string | undefined;
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly homeDir?: string;
}

/**
 * The kubeconfig, or `undefined` without a file. With several files (`KUBECONFIG=a:b`), the first one with a
 * context, cluster or user of a name defines it completely, and the first `current-context` wins. Missing
 * files of a list are skipped.
 *
 * @throws {RampartError} `INPUT` for a file that cannot be read or is not a kubeconfig, and when `path` does
 *   not exist. The message has no value from the file in it.
 */
export function loadKubeconfig(options: KubeconfigOptions = {}): Kubeconfig | undefined {
  const isOptional = options.path === undefined;
  const parsed = kubeconfigFiles(options)
    .map((file) => ({ file, text: readText(file, isOptional) }))
    .filter(({ text }) => text !== undefined)
    .map(({ file, text }) => parseKubeconfig(text ?? '', file));
  if (parsed.length === 0) return undefined;
  const firstOf = (part: (config: Kubeconfig) => ReadonlyMap<string, KubeconfigEntry>) =>
    // Later entries of a Map win, so the first file comes last.
    new Map(parsed.toReversed().flatMap((config) => [...part(config)]));
  return {
    files: parsed.flatMap(({ files }) => files),
    currentContext: parsed.find(({ currentContext }) => currentContext)?.currentContext,
    contexts: firstOf(({ contexts }) => contexts),
    clusters: firstOf(({ clusters }) => clusters),
    users: firstOf(({ users }) => users),
  };
}

export function kubeconfigFiles(options: KubeconfigOptions = {}): readonly string[] {
  const { path, env = process.env, homeDir = homedir() } = options;
  const listed = (env['KUBECONFIG'] ?? '').split(delimiter).filter((part) => part !== '');
  const candidates = path ? [path] : listed.length > 0 ? listed : [join(homeDir, '.kube', 'config')];
  return candidates.map((file) => resolve(file));
}

function readText(file: string, optional: boolean): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if (optional && (error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw new RampartError(errorCodes.INPUT, {
      what: `cannot read kubeconfig ${file}`,
      why: messageOf(error),
      cause: error,
    });
  }
}

/**
 * Loaded with the first kubeconfig: a pod has none, and the parser takes a MiB for as long as the process
 * lives.
 */
function yaml(): typeof Yaml {
  return createRequire(import.meta.url)('yaml') as typeof Yaml;
}

/** One file's text; `file` is for messages and for the relative paths in it. Throws as {@link loadKubeconfig}. */
export function parseKubeconfig(text: string, file: string): Kubeconfig {
  const { LineCounter, parseDocument } = yaml();
  const lines = new LineCounter();
  // The parser's pretty errors quote the file, and a kubeconfig is full of secrets; so only code and line are
  // shown.
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, logLevel: 'silent' });
  const [problem] = document.errors;
  if (problem !== undefined) {
    const { line } = lines.linePos(problem.pos[0]);
    const why = problem.code === 'DUPLICATE_KEY' ? 'a duplicate key' : 'this is not YAML';
    throw invalid(file, `line ${line}: ${why}. Check that it is a kubeconfig`);
  }
  let value: unknown;
  try {
    value = document.toJS();
  } catch {
    throw invalid(file, 'its aliases cannot be resolved');
  }
  const top = new Fields(value ?? {}, { file, path: '' });
  const entries = (list: string, item: string): Map<string, KubeconfigEntry> => {
    const found = new Map<string, KubeconfigEntry>();
    for (const entry of top.list(list)) {
      const name = entry.required('name');
      if (!found.has(name)) found.set(name, { name, fields: entry.object(item, `${list}[${name}]`) });
    }
    return found;
  };
  return {
    files: [file],
    currentContext: top.text('current-context') || undefined,
    contexts: entries('contexts', 'context'),
    clusters: entries('clusters', 'cluster'),
    users: entries('users', 'user'),
  };
}

interface Place {
  readonly file: string;
  /** `users[alice].exec`; '' at the top. */
  readonly path: string;
}

/** An object of a kubeconfig, read field by field; what has the wrong type is named by its path, never by value. */
export class Fields {
  readonly #record: Readonly<Record<string, unknown>>;
  readonly #place: Place;

  constructor(value: unknown, place: Place) {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      throw invalid(
        place.file,
        place.path === ''
          ? 'this is not a kubeconfig: it has no clusters, users and contexts'
          : `${place.path} is not an object`,
      );
    }
    this.#record = value as Readonly<Record<string, unknown>>;
    this.#place = place;
  }

  /** For messages: `users[alice] in /etc/kubeconfig`. */
  get where(): string {
    return `${this.#place.path} in ${this.#place.file}`;
  }

  text(name: string): string | undefined {
    const value = this.#record[name] ?? undefined;
    if (value === undefined || typeof value === 'string') return value;
    // Unquoted YAML: a user named 123, a password of digits.
    if (typeof value === 'number' || typeof value === 'boolean') return String(value);
    throw this.#mistyped(name, 'a string');
  }

  required(name: string): string {
    const value = this.text(name);
    if (value) return value;
    throw invalid(this.#place.file, `${this.#pathOf(name)} is missing`);
  }

  flag(name: string): boolean {
    const value = this.#record[name] ?? false;
    if (typeof value === 'boolean') return value;
    throw this.#mistyped(name, 'true or false');
  }

  texts(name: string): string[] {
    const value = this.#record[name] ?? [];
    if (Array.isArray(value) && value.every((item) => typeof item === 'string')) return value;
    throw this.#mistyped(name, 'a list of strings');
  }

  list(name: string): Fields[] {
    const value = this.#record[name] ?? [];
    if (!Array.isArray(value)) throw this.#mistyped(name, 'a list');
    return value.map(
      (item, index) => new Fields(item, { file: this.#place.file, path: `${this.#pathOf(name)}[${index}]` }),
    );
  }

  /** An object, empty if it is missing. `path` names it in messages. */
  object(name: string, path = this.#pathOf(name)): Fields {
    return new Fields(this.#record[name] ?? {}, { file: this.#place.file, path });
  }

  raw(name: string): unknown {
    return this.#record[name];
  }

  has(name: string): boolean {
    const value = this.#record[name];
    return value !== undefined && value !== null && value !== '';
  }

  names(): string[] {
    return Object.keys(this.#record);
  }

  /** A path, relative to the file that names it. */
  path(name: string): string | undefined {
    const path = this.text(name);
    if (!path) return undefined;
    return isAbsolute(path) ? path : join(dirname(this.#place.file), path);
  }

  /** Bytes given as base64 in `<name>-data`. */
  data(name: string): Buffer | undefined {
    const text = this.text(`${name}-data`);
    if (!text) return undefined;
    if (!/^[A-Za-z0-9+/\s]*={0,2}\s*$/.test(text)) throw this.#mistyped(`${name}-data`, 'base64');
    return Buffer.from(text, 'base64');
  }

  #pathOf(name: string): string {
    return this.#place.path === '' ? name : `${this.#place.path}.${name}`;
  }

  #mistyped(name: string, wanted: string): RampartError {
    return invalid(this.#place.file, `${this.#pathOf(name)} is not ${wanted}`);
  }
}

function invalid(file: string, why: string): RampartError {
  return new RampartError(errorCodes.INPUT, { what: `kubeconfig ${file}`, why });
}
