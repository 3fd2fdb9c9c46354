/**
 * Options that several commands have: one text and one meaning for each.
 *
 * @module
 */
import { Option } from 'commander';

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
