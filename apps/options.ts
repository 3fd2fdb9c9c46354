/**
 * Options that several commands have: one text and one meaning for each.
 *
 * @module
 */
import { InvalidArgumentError, Option } from 'commander';

/** How to attach to the kernel; `auto` takes the best that works. */
export type ModeChoice = 'auto' | 'fentry' | 'kprobe' | 'raw_tracepoint';

/** Of options that may be given several times. */
export function append(text: string, before: readonly string[]): string[] {
  return [...before, text];
}

/** `--mode`, of {@link ModeChoice}. */
export function modeOption(): Option {
  return new Option('--mode <mode>', 'how to attach to the kernel')
    .choices(['auto', 'fentry', 'kprobe', 'raw_tracepoint'])
    .default('auto');
}

/** `--allow-callback`, a list of strings. */
export function allowCallbackOption(): Option {
  return new Option(
    '--allow-callback <address>',
    'an address, network or name that callbacks may go to although it is refused by default, such as 127.0.0.1; repeatable',
  )
    .argParser(append)
    .default([]);
}

/** `--callback-secret`, a list of strings: see `parseCallbackDefaults`. */
export function callbackSecretOption(): Option {
  return new Option(
    '--callback-secret <secret>',
    'as [ORIGIN=]NAMESPACE/NAME: the Secret for callbacks to this origin (https://host[:port]) whose trap names none; its keys token, ' +
      'tls.crt with tls.key, and ca.crt are used. Without an origin for all https callbacks, and only ca.crt; repeatable',
  )
    .argParser(append)
    .default([]);
}

/** `--cri-socket`. */
export function criSocketOption(): Option {
  return new Option('--cri-socket <path>', 'the socket of the container runtime; default: the usual places');
}

/** `--metrics`; `served` says what is at that address. */
export function metricsOption(served = 'Prometheus metrics'): Option {
  return new Option('--metrics <address>', `serve ${served} on this port or host:port`);
}

/** What the processes serve that guard: see `observe` in process.ts. */
export const metricsAndHealth = 'Prometheus metrics, /healthz and /readyz';

const units: Readonly<Record<string, number>> = { '': 1, k: 1024, m: 1024 ** 2, g: 1024 ** 3 };

/** `500k`, `20M`, `1G`: a number of bytes above 0. */
export function byteCount(text: string): number {
  const [, digits = '', unit = ''] = /^(\d{1,12})([kmg]?)(?:i?b)?$/i.exec(text) ?? [];
  const value = Number(digits) * (units[unit.toLowerCase()] ?? Number.NaN);
  if (digits === '' || !(value > 0)) {
    throw new InvalidArgumentError('A number of bytes is needed: 500k, 20M, 1G.');
  }
  return value;
}

/** 1 to 64. */
export function threadCount(text: string): number {
  const value = Number(text);
  if (!/^\d{1,2}$/.test(text) || value < 1 || value > 64) {
    throw new InvalidArgumentError('1 to 64 is needed.');
  }
  return value;
}

/** What the agent and standalone let a user say of file integrity. */
export interface IntegrityOptions {
  readonly hostRoot: string;
  /** Bytes a second. */
  readonly integrityReadRate?: number;
  readonly integrityWorkers?: number;
}

/** `--host-root`, `--integrity-read-rate`, `--integrity-workers`, of {@link IntegrityOptions}. */
export function integrityOptions(): Option[] {
  return [
    new Option('--host-root <dir>', 'where the files of the node are that FileIntegrity is for').default('/'),
    new Option(
      '--integrity-read-rate <bytes>',
      'what scans of FileIntegrity read at most in a second: 500k, 20M; default: no limit',
    ).argParser(byteCount),
    new Option(
      '--integrity-workers <number>',
      'threads that read files for FileIntegrity while a scan runs; default: 2',
    ).argParser(threadCount),
  ];
}
