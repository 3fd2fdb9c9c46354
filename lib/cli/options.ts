/** Options that several commands share: one text and one meaning for each. */
import { InvalidArgumentError, Option } from 'commander';

import { errorCodes, RampartError } from '../errors/errors.ts';

/** Parses an option that may be given several times. */
export function append(text: string, before: readonly string[]): string[] {
  return [...before, text];
}

/** The words of a comma-separated list. */
export function words(text: string): string[] {
  return text
    .split(',')
    .map((word) => word.trim())
    .filter((word) => word !== '');
}

/** Refuses an empty value, as from `--namespace "$UNSET"`, which would otherwise mean the default. @throws {RampartError} `INPUT` */
export function refuseEmpty(
  values: Readonly<Record<string, string | undefined>>,
  next = 'Give a value',
): void {
  for (const [name, value] of Object.entries(values)) {
    if (value === '') throw new RampartError(errorCodes.INPUT, { what: `${name} is empty`, next });
  }
}

export function wholeNumber(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError('It must be an integer.');
  return Number(text);
}

export function criSocketOption(): Option {
  return new Option(
    '--cri-socket <path>',
    'the socket of the container runtime; default: the first of the usual ones',
  );
}

/** `--metrics`. @param served - What is served at that address, for the help. */
export function metricsOption(served = 'Prometheus metrics'): Option {
  return new Option('--metrics <address>', `serve ${served} on this port or host:port`);
}

/** `--metrics-tls`, for commands with `--metrics`. */
export function metricsTlsOption(): Option {
  return new Option(
    '--metrics-tls <dir>',
    'serve /metrics only by TLS, with tls.crt and tls.key in this directory; with ca.crt, only to clients with a certificate of that authority',
  );
}

/** Endpoints of long-running processes: see `observe` in process.ts. */
export const metricsAndHealth = 'Prometheus metrics, /healthz and /readyz';

export function hostRootOption(): Option {
  return new Option('--host-root <dir>', "where the node's root file system is mounted").default('/');
}
