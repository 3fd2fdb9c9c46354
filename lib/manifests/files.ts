import { readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';

import { errorCodes, RampartError } from '../errors/errors.ts';

export interface ManifestRoot {
  /** Absolute. */
  readonly path: string;
  readonly isDirectory: boolean;
}

interface ManifestFile {
  readonly path: string;
  /** `undefined` if it cannot be read. */
  readonly text: string | undefined;
  readonly why: string | undefined;
}

/** The files that were found, and directories that could not be read: objects from the latter stay. */
export interface FoundFiles {
  readonly files: readonly ManifestFile[];
  readonly unreadable: readonly { readonly path: string; readonly why: string }[];
}

const extension = /\.(ya?ml|json)$/;

/** Whether a file in a directory is a manifest; editors keep their own files beside it. */
export function isManifestName(name: string): boolean {
  return extension.test(name) && !name.startsWith('.');
}

/** @throws {RampartError} `INPUT` for a path that does not exist, or is neither a file nor a directory. */
export function manifestRoots(paths: readonly string[]): ManifestRoot[] {
  return [...new Set(paths.map((path) => resolve(path)))].map((path) => {
    try {
      const stat = statSync(path);
      if (stat.isDirectory() || stat.isFile()) return { path, isDirectory: stat.isDirectory() };
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      throw unusable(path, code === 'ENOENT' ? 'it does not exist' : message, error);
    }
    throw unusable(path, 'it is neither a file nor a directory');
  });
}

function unusable(path: string, why: string, cause?: unknown): RampartError {
  const what = `cannot apply ${path}`;
  return new RampartError(errorCodes.INPUT, {
    what,
    why,
    next: 'Create it, or name another file or directory',
    cause,
  });
}

/** Reads all manifests. Of a directory it reads the files, but no subdirectories, like kubectl. Files that are gone are omitted. */
export function readManifests(roots: readonly ManifestRoot[]): FoundFiles {
  const paths = new Set<string>();
  const unreadable: { path: string; why: string }[] = [];
  for (const root of roots) {
    if (!root.isDirectory) {
      paths.add(root.path);
      continue;
    }
    try {
      for (const name of readdirSync(root.path).toSorted()) {
        if (isManifestName(name)) paths.add(join(root.path, name));
      }
    } catch (error) {
      unreadable.push({ path: root.path, why: error instanceof Error ? error.message : String(error) });
    }
  }
  const files: ManifestFile[] = [];
  for (const path of paths) {
    try {
      files.push({ path, text: readFileSync(path, 'utf8'), why: undefined });
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      // A directory called x.yaml is not a manifest either.
      if (code === 'EISDIR') continue;
      if (code === 'ENOENT' && exists(dirname(path))) continue;
      files.push({ path, text: undefined, why: message });
    }
  }
  return { files, unreadable };
}

function exists(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}

/** Whether a path is one of the roots, or directly in one. */
export function isWithin(roots: readonly ManifestRoot[], path: string): boolean {
  return roots.some((root) => root.path === (root.isDirectory ? dirname(path) : path));
}
