/** Interprets the output of the real AIDE: its exit code, and its JSON report (`report_format=json`, 0.18 and 0.19). */
import { isObject } from '../../../lib/json/json.ts';
import { parseJsonKeys } from '../../../lib/json/escaped-keys.ts';
import { type ErrorCode, errorCodes, messageOf, RampartError } from '../../../lib/errors/errors.ts';
import { type FileType, fileTypes } from '../model/entry.ts';
import { compareInTree } from '../report/report.ts';
import type { AttributeDetail, Report, ReportedChange } from '../model/report.ts';
import { printable } from '../report/printable.ts';

export type AideOutcome =
  | { readonly kind: 'same' }
  | {
      readonly kind: 'differences';
      readonly added: boolean;
      readonly removed: boolean;
      readonly changed: boolean;
    }
  /** Nothing is known about the files. `why` is for people. */
  | { readonly kind: 'error'; readonly code: number | undefined; readonly why: string };

/** Meaning of exit codes, see aide(1). */
const errors: Readonly<Record<number, string>> = {
  14: 'it could not write (a full disk, or a report or database path that cannot be written)',
  15: 'it was called with an unknown argument',
  16: 'it was asked for something that is not implemented',
  17: 'its configuration is invalid',
  18: 'it could not read or write a file (its database or configuration)',
  19: 'the version of its database does not match',
  20: 'it could not execute a program of its configuration',
  21: 'it could not get a lock',
  22: 'it ran out of memory',
  23: 'it could not start or use a thread',
  // Added in 0.19.
  24: 'its database cannot be used',
  25: 'it was killed by a signal',
};

/**
 * Interprets how `aide --check`, `--compare` or `--update` ended. `signal` is the signal that killed it, if any.
 *
 * Exit codes 1 to 7 are a bit mask: 1 added, 2 removed, 4 changed. Any other code except 0 is an error: nothing is
 * known about the files then.
 */
export function aideOutcome(code: number | null, signal?: string | null): AideOutcome {
  if (signal !== undefined && signal !== null) {
    const memory = signal === 'SIGKILL' ? ', usually because it ran out of memory' : '';
    return { kind: 'error', code: undefined, why: `it was killed by ${signal}${memory}` };
  }
  if (code === 0) return { kind: 'same' };
  if (code !== null && code > 0 && code < 8) {
    return {
      kind: 'differences',
      added: (code & 1) !== 0,
      removed: (code & 2) !== 0,
      changed: (code & 4) !== 0,
    };
  }
  if (code === null) return { kind: 'error', code: undefined, why: 'it ended without an exit code' };
  return { kind: 'error', code, why: errors[code] ?? 'this exit code is unknown' };
}

/**
 * Parses the report of `aide` with `report_format=json`. It is given as bytes because file names need not be text.
 * Missing parts are empty; findings that AIDE counts but does not list (with a low `report_level`) are in `counts`
 * only.
 *
 * @param version of the AIDE that wrote it, if known: a truncated report may lack it
 * @throws RampartError DECODE if it is not a report: empty, cut off, in another format
 */
export function parseAideReport(output: Uint8Array, version?: string): Report {
  // One character for each byte, so that names that are not UTF-8 are preserved.
  const text = Buffer.from(output).toString('latin1').trim();
  if (text === '') throw undecodable('it is empty');
  if (!text.startsWith('{'))
    throw undecodable('it is not JSON: report_format=json must come before report_url');
  let report: unknown;
  try {
    report = parseJsonKeys(text);
    const writer = isObject(report) ? (report['aide_version'] ?? version) : version;
    if (typeof writer === 'string' && writer.startsWith('0.18.')) {
      const meant = withHexadecimal(text);
      if (meant !== text) report = parseJsonKeys(meant);
    }
  } catch (error) {
    throw undecodable(messageOf(error), error);
  }
  if (!isObject(report)) throw undecodable('it is not an object');
  if (typeof report['outline'] !== 'string' && !isObject(report['number_of_entries'])) {
    throw undecodable('it has neither an outline nor counts');
  }
  const details = isObject(report['details']) ? report['details'] : {};
  const changes = readChanges(report, details).toSorted((a, b) => compareInTree(a.path, b.path));
  const listed = (kind: ReportedChange['kind']): number =>
    changes.filter((change) => change.kind === kind).length;
  const reported = isObject(report['number_of_entries']) ? report['number_of_entries'] : {};
  const count = (name: string, min: number): number => Math.max(countOf(reported[name]), min);
  const counts = {
    total: countOf(reported['total']),
    added: count('added', listed('added')),
    removed: count('removed', listed('removed')),
    changed: count('changed', listed('changed')),
    problems: 0,
  };
  const redefined = isObject(report['different_attributes'])
    ? Object.entries(report['different_attributes'])
    : [];
  return {
    counts,
    changes,
    redefined: redefined.map(([path, difference]) => ({ path, difference: String(difference) })),
    problems: [],
    omitted: counts.added + counts.removed + counts.changed - changes.length,
  };
}

/**
 * Converts escapes of control characters to hexadecimal, as JSON requires. Debian's AIDE 0.18.3 writes them in decimal:
 * ESC is `\u0027`, which would be an apostrophe. It escapes only control characters in this way, so the conversion is
 * unambiguous. 0.19 writes valid JSON.
 */
function withHexadecimal(text: string): string {
  return text.replace(/\\(?:u(\d{4})|.)/gs, (whole, digits?: string) => {
    const value = Number(digits ?? Number.NaN);
    return value < 32 || value === 127 ? `\\u${value.toString(16).padStart(4, '0')}` : whole;
  });
}

function readChanges(report: Record<string, unknown>, details: Record<string, unknown>): ReportedChange[] {
  const changes: ReportedChange[] = [];
  const add = (kind: ReportedChange['kind'], path: string, summary: string): void => {
    changes.push({
      kind,
      path,
      summary,
      type: typeOf(summary),
      details: detailsOf(details[path]),
    });
  };
  for (const kind of ['added', 'removed', 'changed'] as const) {
    const some = report[kind];
    // Without report_summarize_changes, AIDE lists only the names.
    if (Array.isArray(some)) for (const path of some) add(kind, String(path), '');
    else if (isObject(some))
      for (const [path, summary] of Object.entries(some)) add(kind, path, String(summary));
  }
  // Without report_grouped, AIDE writes all entries in one object.
  const entries = isObject(report['entries']) ? Object.entries(report['entries']) : [];
  for (const [path, value] of entries) {
    const summary = String(value);
    if (summary === 'added' || summary === 'removed' || summary === 'changed') add(summary, path, '');
    else add(/^.\++$/.test(summary) ? 'added' : /^.-+$/.test(summary) ? 'removed' : 'changed', path, summary);
  }
  return changes;
}

function typeOf(summary: string): FileType | undefined {
  return fileTypes.find((type) => summary.startsWith(type));
}

function detailsOf(value: unknown): AttributeDetail[] {
  if (!isObject(value)) return [];
  return Object.entries(value).map(([name, sides]) => ({
    name,
    old: isObject(sides) ? valuesOf(sides['old']) : [],
    now: isObject(sides) ? valuesOf(sides['new']) : [],
  }));
}

function valuesOf(value: unknown): string[] {
  if (value === undefined || value === null) return [];
  return (Array.isArray(value) ? value : [value]).map(String);
}

function countOf(value: unknown): number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : 0;
}

function undecodable(why: string, cause?: unknown): RampartError {
  return new RampartError(errorCodes.DECODE, {
    what: 'the report of AIDE cannot be read',
    why,
    next: 'Check the standard error of AIDE: it may have been stopped, or its disk may be full',
    cause,
  });
}

/**
 * Completes a truncated report: drops everything after the last complete member (AIDE writes one in each line), and
 * closes open objects and lists. The counts are correct, because they precede the findings.
 */
export function closeCutReport(start: Buffer): Buffer {
  const text = start.toString('latin1');
  // Where the last complete member ends, and which brackets have to be closed there.
  let whole = 0;
  let wholeClosers = '';
  const closers: string[] = [];
  let inText = false;
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (inText) {
      if (character === '\\') at++;
      else if (character === '"') inText = false;
      continue;
    }
    if (character === '"') inText = true;
    else if (character === '{') closers.push('}');
    else if (character === '[') closers.push(']');
    else if (character === '}' || character === ']') closers.pop();
    else if (character === ',') {
      whole = at;
      wholeClosers = closers.toReversed().join('');
    }
  }
  return Buffer.from(`${text.slice(0, whole)}${wholeClosers}`, 'latin1');
}

/** Errors for exit codes, see aide(1). */
const codes: Readonly<Record<number, readonly [code: ErrorCode, next: string]>> = {
  14: [errorCodes.SYSTEM, 'Check the disk of its databases. The baseline is unchanged'],
  15: [errorCodes.UNSUPPORTED, 'Install AIDE 0.18 or 0.19'],
  17: [errorCodes.INPUT, 'Correct the configuration'],
  19: [errorCodes.UNSUPPORTED, 'Initialize again with this version of AIDE'],
  22: [errorCodes.LIMIT, 'Allow more memory, or select fewer files'],
  24: [errorCodes.CORRUPT, 'Initialize again'],
};
/** If AIDE 0.19 cannot write its whole database, it removes it and does not say why: usually the disk is full. */
const full = /No space left on device|Disk quota exceeded|\(remove incompletely written database\)/;
const maxLines = 20;

/**
 * AIDE's messages about its configuration, without the text of included files: these files are on the node, and the
 * reader of a message may not be allowed to read them. Values of macros may contain such text too.
 *
 * @param conf path that AIDE uses for the configuration itself
 */
export function withoutIncluded(messages: string, conf: string): string {
  return messages.replace(
    /^(\s*[A-Z]+: )(\/[^\n]*?):(\d+)(:\d+)?: [^\n]*$/gm,
    (reported: string, level: string, file: string, line: string, column = '') => {
      if (file === conf && !reported.includes('@@{')) return reported;
      const what =
        file === conf ? 'it cannot be used with the value of its macro' : 'the line cannot be used';
      return `${level}${file}:${line}${column}: ${what}`;
    },
  );
}

/**
 * @param run what AIDE was doing: `make a baseline`
 * @param messages its stderr, one character for each byte
 */
export function aideFailure(
  run: string,
  { code, why }: { readonly code: number | undefined; readonly why: string },
  messages: string,
): RampartError {
  const lines = messages
    .split('\n')
    .map((line) => printable(line.trim()))
    .filter((line) => line !== '');
  // The fatal error is the last line; for a configuration with many errors, it is one of several that are listed.
  const errorLines = lines.filter((line) => line.startsWith('ERROR'));
  const reported = (errorLines.length > 0 ? errorLines : lines).slice(-maxLines);
  const isFull = reported.some((line) => full.test(line));
  const [known, next] = (code === undefined ? undefined : codes[code]) ?? [
    errorCodes.SYSTEM,
    'The state of the files is unknown. The baseline is unchanged',
  ];
  return new RampartError(isFull ? errorCodes.FULL : known, {
    what: `AIDE could not ${run}`,
    why: code === undefined ? why : `${why} (exit code ${code})`,
    next: isFull ? 'Free space on the file system of its databases. The baseline is unchanged' : next,
    ...(reported.length > 0 && { detail: reported.join('\n') }),
  });
}
