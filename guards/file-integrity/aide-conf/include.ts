/** `@@include` and `@@x_include`: of a single file, or of the files of a directory whose names match. */
import { closeSync, constants, fstatSync, openSync, statSync } from 'node:fs';

import { compareText } from '../../../lib/output/compare-text.ts';
import { messageOf } from '../../../lib/errors/errors.ts';
import { readBounded } from '../../../lib/files/bounded-read.ts';
import { PatternSet } from '../pcre/pattern-set.ts';
import type { ByteString } from '../model/entry.ts';
import type { Reading } from './reading.ts';
import { bytesOf } from '../model/bytes.ts';
import { regexOf } from './rule.ts';
import { type Fault, fault, type Position, type ProblemList, sourceOf } from './source.ts';
import type { IncludeStatement, Text } from './syntax.ts';

/** Limit of nested includes, as in AIDE. */
const maxDepth = 16;
/**
 * Limit of the files that one configuration includes, counting repeated ones. AIDE has no limit: a directory that
 * includes itself keeps it busy for years.
 */
const maxFiles = 10_000;
/** Maximum size of one included file. */
const maxFileBytes = 4 * 1024 * 1024;
/** Maximum total size of the files that one configuration includes. */
const maxBytes = 4 * maxFileBytes;

const missingNext = 'Create it, or remove the line; @@if exists FILE checks whether it exists';

export function include(
  statement: IncludeStatement,
  prefix: ByteString,
  depth: number,
  reading: Reading,
): void {
  const { problems, environment } = reading;
  const { at, path, pattern, executes } = statement;
  if (depth > maxDepth) {
    const next = 'Check whether a file includes itself';
    unread(at, fault`more than ${maxDepth} nested includes`, next, reading);
    return;
  }
  if (executes && environment.execute === undefined) {
    unread(at, executionRefused.what, executionRefused.next, reading);
    return;
  }
  const place = reading.text(path);
  if (pattern === undefined) {
    readOne(place, statement, prefix, depth, reading);
    return;
  }
  const inner = statement.prefix === undefined ? '' : prefixOf(statement.prefix, reading);
  if (inner === undefined) return;
  for (const file of filesIn(place, path, pattern, reading)) {
    if (problems.isFull || reading.filesRead > maxFiles) return;
    readOne(file, statement, prefix + inner, depth, reading);
  }
}

const executionRefused = {
  what: fault`@@x_include runs programs as root, which is not allowed here`,
  next: 'Write their output into the configuration, or use @@include',
};

export function refuseExecution(at: Position, problems: ProblemList): void {
  problems.error(at, executionRefused.what, executionRefused.next);
}

function unread(at: Position, what: Fault, next: string, { problems, unreadIncludes }: Reading): void {
  unreadIncludes.push(problems.error(at, what, next));
}

/** The prefix for the rules of included files; undefined if the path is invalid. */
function prefixOf(prefix: Text, reading: Reading): ByteString | undefined {
  const own = reading.bytes(prefix).replace(/\/$/, '');
  if (own === '' || own.startsWith('/')) return own;
  reading.problems.error(
    prefix.at,
    fault`the prefix '${own}' does not start with /`,
    'Write a path, as in /mnt',
  );
  return undefined;
}

/** The files of a directory whose names match, sorted by their bytes, as in the C locale. */
function filesIn(directory: string, { at }: Text, pattern: Text, reading: Reading): readonly string[] {
  const { problems, environment } = reading;
  const regex = regexOf(reading.bytes(pattern), pattern.at, problems, fault`the pattern`);
  if (regex === undefined) return [];
  const node = { kind: 'char', set: () => true } as const;
  const anything = { kind: 'repeat', node, min: 0, max: Infinity } as const;
  const names = new PatternSet([{ kind: 'concat', nodes: [anything, regex] }]);
  let files: readonly string[];
  try {
    files = environment.readDirectory(directory);
  } catch (error) {
    const what = fault`cannot read the directory ${directory}: ${messageOf(error)}`;
    problems.error(at, what, 'Create it, or remove the line');
    return [];
  }
  const matching = files.filter((name) => names.matches(names.walk(names.start, bytesOf(name))).length > 0);
  const wanted = matching.length === 0 ? onlyName(reading.text(pattern)) : undefined;
  if (wanted !== undefined) {
    // AIDE does not report this. But the conversion writes the inclusion of a single file in this form, and that file
    // has to exist.
    unread(at, fault`cannot read ${directory}/${wanted}: there is no such file`, missingNext, reading);
  }
  return matching
    .map((name) => [bytesOf(name), name] as const)
    .sort(([a], [b]) => compareText(a, b))
    .map(([, name]) => `${directory}/${name}`);
}

/** The name that an expression matches, if it matches only one: `^a\.conf$`. */
function onlyName(pattern: string): string | undefined {
  const name = /^\^((?:[^.*+?^${}()|[\]\\]|\\[^A-Za-z0-9])+)\$$/.exec(pattern)?.[1];
  return name?.replace(/\\(.)/gs, '$1');
}

function readOne(
  file: string,
  statement: IncludeStatement,
  prefix: ByteString,
  depth: number,
  reading: Reading,
): void {
  const { environment } = reading;
  if (++reading.filesRead > maxFiles) {
    const next = 'Check whether a directory includes itself';
    unread(statement.path.at, fault`more than ${maxFiles} included files`, next, reading);
    return;
  }
  let content: string | Uint8Array;
  try {
    content =
      statement.executes && environment.execute !== undefined
        ? environment.execute(file, reading.executionEnvironment)
        : environment.readFile(file);
  } catch (error) {
    const what = fault`cannot read ${file}: ${messageOf(error)}`;
    unread(statement.path.at, what, 'Create it, or remove the line', reading);
    return;
  }
  reading.bytesRead += content.length;
  if (reading.bytesRead > maxBytes) {
    const next = 'Include fewer or smaller files';
    unread(statement.path.at, fault`more than ${maxBytes} bytes of included files`, next, reading);
    return;
  }
  const isPrivate = environment.reportsIncluded !== true;
  reading.read({ ...sourceOf(file, content), isPrivate }, prefix, depth);
}

export function readRegularFile(path: string): Buffer {
  const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    if (!fstatSync(fd).isFile()) throw new Error('it is not a regular file');
    return readBounded(fd, maxFileBytes, 'the file');
  } finally {
    closeSync(fd);
  }
}

/**
 * Whether a file of a directory is included: a regular file, or a name whose target does not exist, so that a dangling
 * link is an error, as in AIDE, instead of silently losing its rules.
 */
export function isIncluded(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() ?? true;
}
