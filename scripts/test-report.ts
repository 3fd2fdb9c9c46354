/**
 * Summarises a run of the tests in its last lines: skipped tests, failures with their places, the slowest
 * files.
 */
import { globSync, readFileSync } from 'node:fs';
import { dirname, isAbsolute, join, relative } from 'node:path';
import type { TestEvent } from 'node:test/reporters';

import { printable } from '../lib/output/printable.ts';

const SLOWEST_SHOWN = 10;

interface FailedTest {
  /** `lib/ebpf/map.test.ts`, or a batch by its first and last file. */
  readonly file: string;
  /** With the line where it stands, if that is known. */
  readonly place: string;
  readonly name: string;
}

/** node:test's error for a test; for a process, with how it ended. */
interface ProcessFailure {
  readonly failureType?: string;
  readonly exitCode?: number | null;
  readonly signal?: string | null;
}

/** Collects the events of a run. */
export class TestReport {
  readonly #top: string;
  /** Modules that only import test files: those files. */
  readonly #batches: ReadonlyMap<string, readonly string[]>;
  /** Duration of each process that runs a single file: with its start, and hooks. */
  readonly #processMs = new Map<string, number>();
  /** Sum of the tests by the file that defines them, which may be a fixture. */
  readonly #testsMs = new Map<string, number>();
  #importersOf: ReadonlyMap<string, readonly string[]> | undefined;
  readonly #failed: FailedTest[] = [];
  readonly #ended = new Set<string>();

  /** @param top - The checkout. */
  constructor(top: string, batches: ReadonlyMap<string, readonly string[]>) {
    this.#top = top;
    this.#batches = batches;
  }

  /** Seconds by file. */
  get seconds(): ReadonlyMap<string, number> {
    return new Map([...this.#milliseconds()].map(([file, ms]) => [file, Math.round(ms / 1000)]));
  }

  /** The tests of a fixture count for the files that run it, in equal parts: node:test does not say which file it was. */
  #milliseconds(): Map<string, number> {
    const all = new Map(this.#processMs);
    const ran = new Set([...this.#processMs.keys(), ...[...this.#batches.values()].flat()]);
    for (const [file, ms] of this.#testsMs) {
      const files = this.#runnable(file).filter((path) => ran.has(path));
      for (const path of files)
        if (!this.#processMs.has(path)) all.set(path, (all.get(path) ?? 0) + ms / files.length);
    }
    return all;
  }

  get hasFailed(): boolean {
    return this.#failed.length > 0;
  }

  /** Takes an event in. */
  add(event: TestEvent): void {
    if (event.type === 'test:pass' || event.type === 'test:fail') {
      const { file = '', nesting, details } = event.data;
      // For a file or batch itself: a process has an event of its own.
      const isProcess = event.data.name === file || this.#batches.has(event.data.name);
      if (nesting === 0 && !isProcess) {
        const name = this.#relative(file);
        this.#ended.add(name);
        this.#testsMs.set(name, (this.#testsMs.get(name) ?? 0) + details.duration_ms);
      }
      if (event.type === 'test:fail') this.#fail(event.data, isProcess);
    } else if (event.type === 'test:summary' && event.data.file !== undefined) {
      const { file, duration_ms } = event.data;
      if (!this.#batches.has(file)) this.#processMs.set(this.#relative(file), duration_ms);
    }
  }

  #fail(data: Extract<TestEvent, { type: 'test:fail' }>['data'], isProcess: boolean): void {
    const { file = '', line, name, details } = data;
    const error = details.error as ProcessFailure;
    // Its parts have reported already.
    if (error.failureType === 'subtestsFailed') return;
    const batch = this.#batches.get(isProcess ? name : file);
    if (batch !== undefined) {
      const open = batch.filter((path) => !this.#ended.has(path));
      for (const path of open.length > 0 ? open : batch) {
        const how = `its process ended before its tests had${endOf(error)}`;
        this.#failed.push({ file: path, place: path, name: how });
      }
      return;
    }
    const path = this.#relative(isProcess && isAbsolute(name) ? name : file);
    if (isProcess && this.#failed.some((one) => one.file === path)) return;
    const place = line === undefined || isProcess ? path : `${path}:${line}`;
    this.#failed.push({ file: path, place, name: isProcess ? 'the file itself' : name });
  }

  /**
   * The last lines of a run.
   *
   * @param settings - What repeats it: `RAMPART_TEST_SEED=1 ...`.
   * @param named - The files and folders that were asked for; empty: all.
   */
  lines(settings: string, named: readonly string[]): string[] {
    const slowest = [...this.#milliseconds()].toSorted(([, a], [, b]) => b - a).slice(0, SLOWEST_SHOWN);
    const lines = [
      'slowest:',
      ...slowest.map(([file, ms]) => `${(ms / 1000).toFixed(0).padStart(4)} s  ${file}`),
    ];
    const again = (paths: readonly string[]): string =>
      [settings, 'npm test', ...(paths.length > 0 ? ['--'] : []), ...paths.map(shellWord)].join(' ');
    if (!this.hasFailed) return [...lines, `again: ${again(named)}`];
    const files = new Set(this.#failed.flatMap(({ file }) => this.#runnable(file)));
    return [
      ...lines,
      'failed, with details above:',
      ...this.#failed.map(({ place, name }) => `  ${place}  ${printable(name)}`),
      'again:',
      ...[...files].map((file) => `  ${again([file])}`),
    ];
  }

  /** The files to run again for a test of a fixture: those that import it, or a fixture that does. */
  #runnable(file: string): readonly string[] {
    if (file.endsWith('.test.ts')) return [file];
    const found = new Set([file]);
    for (const path of found) for (const importer of this.#importers().get(path) ?? []) found.add(importer);
    const tests = [...found].filter((path) => path.endsWith('.test.ts'));
    return tests.length > 0 ? tests : [file];
  }

  /** By test file or fixture: the test files and fixtures that import it. */
  #importers(): ReadonlyMap<string, readonly string[]> {
    if (this.#importersOf !== undefined) return this.#importersOf;
    const all = new Map<string, string[]>();
    for (const path of globSync('**/*.{test,fixture}.ts', { cwd: this.#top, exclude: ['**/node_modules'] })) {
      const text = readFileSync(join(this.#top, path), 'utf8');
      for (const [, specifier = ''] of text.matchAll(/(?:from|import) '(\.[^']+)'/g)) {
        const imported = join(dirname(path), specifier);
        all.set(imported, [...(all.get(imported) ?? []), path]);
      }
    }
    return (this.#importersOf = all);
  }

  #relative(file: string): string {
    return isAbsolute(file) ? relative(this.#top, file) : file;
  }
}

/** Repeats every skipped test, before the totals, where it is not overlooked. */
export async function* withSkipped(events: AsyncIterable<TestEvent>, top: string): AsyncGenerator<TestEvent> {
  const skipped: string[] = [];
  for await (const event of events) {
    if (event.type === 'test:pass' && event.data.skip !== undefined && event.data.skip !== false) {
      const { file, name, skip } = event.data;
      const where = file === undefined ? '' : `${relative(top, file)}: `;
      skipped.push(`${where}${name}: ${skip === true ? 'no reason given' : skip}`);
    }
    if (event.type === 'test:diagnostic' && /^tests \d+$/.test(event.data.message)) {
      for (const message of skipped.splice(0)) {
        yield { type: 'test:diagnostic', data: { ...event.data, message: `skipped: ${message}` } };
      }
    }
    yield event;
  }
}

/**
 * Shows characters that a terminal or `grep` does not take for text by their numbers; colours and line ends
 * stay.
 */
export async function* asText(chunks: AsyncIterable<string | Buffer>): AsyncGenerator<string> {
  for await (const chunk of chunks) {
    yield String(chunk).replaceAll(
      // eslint-disable-next-line no-control-regex -- they are what is looked for
      /[\u0000-\u0008\u000b-\u001a\u001c-\u001f\u007f-\u009f]|\u001b(?!\[[\d;]*m)/g,
      (character) => `\\x${character.charCodeAt(0).toString(16).padStart(2, '0')}`,
    );
  }
}

/** A process that was killed has no last words of its own. */
function endOf({ exitCode, signal }: ProcessFailure): string {
  if (typeof signal === 'string') return `, by ${signal}`;
  return typeof exitCode === 'number' ? `, with exit code ${exitCode}` : '';
}

function shellWord(text: string): string {
  return /^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
