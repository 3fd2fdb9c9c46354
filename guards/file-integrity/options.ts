/** The command-line options of this guard. */
import type { GuardOption, OptionValues } from '../../guard/guard.ts';
import { choice, optionalNumber } from '../../guard/option-values.ts';
import { sensorModeOption } from '../../lib/sensor/mode-option.ts';
import type { SensorModeName } from '../../lib/sensor/modes.ts';

export interface FileIntegrityOptions {
  /** Limit in bytes per second. Default: unlimited. */
  readonly readBytesPerSecond: number | undefined;
  /** Number of threads. Default: 2, or the number of CPUs if that is lower. */
  readonly workers: number | undefined;
  readonly mode: SensorModeName | 'auto';
}

export const fileIntegrityOptions: readonly GuardOption[] = [
  {
    flags: '--integrity-read-rate <bytes>',
    description:
      'limit of what scans of FileIntegrities read, in bytes per second: 500k, 20M; default: no limit',
    on: ['agent', 'standalone'],
    parse: byteCount,
  },
  {
    flags: '--integrity-workers <number>',
    description: 'threads that read files during a scan for FileIntegrities; default: 2',
    on: ['agent', 'standalone'],
    parse: threadCount,
  },
  sensorModeOption,
];

export function parseFileIntegrityOptions(values: OptionValues): FileIntegrityOptions {
  return {
    readBytesPerSecond: optionalNumber(values, 'integrityReadRate'),
    workers: optionalNumber(values, 'integrityWorkers'),
    mode: choice(values, 'mode', sensorModeOption.choices),
  };
}

const units: Readonly<Record<string, number>> = { '': 1, k: 1024, m: 1024 ** 2, g: 1024 ** 3 };

/** Parses a number of bytes above 0, such as `500k`, `20M` or `1G`. @throws {RangeError} */
export function byteCount(text: string): number {
  const [, digits = '', unit = ''] = /^(\d{1,12})([kmg]?)(?:i?b)?$/i.exec(text) ?? [];
  const value = Number(digits) * (units[unit.toLowerCase()] ?? Number.NaN);
  if (digits === '' || !(value > 0))
    throw new RangeError('It must be a number of bytes, such as 500k, 20M or 1G.');
  return value;
}

/** Parses a number from 1 to 64. @throws {RangeError} */
export function threadCount(text: string): number {
  const value = Number(text);
  if (!/^\d{1,2}$/.test(text) || value < 1 || value > 64)
    throw new RangeError('It must be a number from 1 to 64.');
  return value;
}
