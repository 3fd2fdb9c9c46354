/** The log on stderr, for operators. Data goes to stdout through LineWriter. */
import { isatty } from 'node:tty';

import { type Logger, pino, stdSerializers, stdTimeFunctions } from 'pino';

import { errorCodes, RampartError } from '../errors/errors.ts';
import { clockTime, printable, visibleJson } from '../output/printable.ts';

export type { Logger } from 'pino';

export const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;
export type LogLevel = (typeof logLevels)[number];

interface LoggerOptions {
  /** The lowest level that is written. Default: the environment's `RAMPART_LOG`, else `info`. */
  readonly level?: LogLevel;
  /** JSON lines, or lines for people. Default: JSON unless stderr is a terminal. */
  readonly json?: boolean;
}

const STDERR = 2;

/**
 * A logger that writes each line to stderr before the call returns, so that none is lost when the process
 * ends. The line is lost, and nothing else happens, when stderr itself fails. It uses no thread.
 *
 * Give an error as `err`: `log.warn({ err }, 'cannot read the mount table')`.
 *
 * @throws {RampartError} `INPUT` for a level that does not exist.
 */
export function createLogger(options: LoggerOptions = {}): Logger {
  const level = options.level ?? levelFromEnvironment();
  const terminal = isatty(STDERR);
  const stderr = pino.destination({ dest: STDERR, sync: true });
  stderr.on('error', () => undefined);
  const json = options.json ?? !terminal;
  const color = terminal && !process.env['NO_COLOR'];
  const destination = json
    ? { write: (line: string) => void stderr.write(visibleJson(line)) }
    : { write: (line: string) => void stderr.write(`${formatLogLine(line, { color })}\n`) };
  return pino(
    {
      level,
      // pid and hostname are what every collector of logs adds by itself.
      base: null,
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: errorFields },
    },
    destination,
  );
}

/** An expected error needs only its message; any other also needs its stack. */
function errorFields(error: unknown): unknown {
  if (error instanceof RampartError) return { type: error.name, code: error.code, message: error.message };
  return error instanceof Error ? stdSerializers.err(error) : error;
}

function levelFromEnvironment(): LogLevel {
  const value = process.env['RAMPART_LOG'];
  if (value === undefined || value === '') return 'info';
  const level = logLevels.find((known) => known === value.toLowerCase());
  if (level === undefined) {
    throw new RampartError(errorCodes.INPUT, {
      what: `RAMPART_LOG="${printable(value)}" is not a log level`,
      next: `Use one of: ${logLevels.join(', ')}`,
    });
  }
  return level;
}

const levelColors: Readonly<Record<string, string>> = {
  warn: '\u001b[33m',
  error: '\u001b[31m',
  fatal: '\u001b[31m',
};

/** A line of the JSON log as a line for a person; control characters are escaped. */
export function formatLogLine(json: string, options: { readonly color: boolean }): string {
  const { level, time, msg, err, ...rest } = JSON.parse(json) as Readonly<Record<string, unknown>>;
  const name = String(level).padEnd(5);
  const start = options.color ? (levelColors[String(level)] ?? '') : '';
  const parts = [`${clockTime(Date.parse(String(time)))} ${start}${name}${start && '\u001b[0m'}`];
  if (msg !== undefined) parts.push(printable(String(msg)));
  const fields = Object.entries(rest).map(([key, value]) => `${printable(key)}=${showValue(value)}`);
  if (fields.length > 0) parts.push(` ${fields.join(' ')}`);
  // Only the error's message: the stack is in the JSON form.
  if (err !== undefined) parts.push(` error: ${showError(err)}`);
  return parts.join(' ');
}

function showValue(value: unknown): string {
  if (typeof value !== 'string') return printable(JSON.stringify(value));
  return /^[^\s"=]+$/.test(value) ? printable(value) : `"${printable(value)}"`;
}

function showError(err: unknown): string {
  if (typeof err !== 'object' || err === null || !('message' in err)) return showValue(err);
  const code = 'code' in err ? ` (${String(err.code)})` : '';
  return printable(`${String(err.message)}${code}`);
}
