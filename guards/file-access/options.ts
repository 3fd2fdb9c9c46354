/** The command-line options of this guard. */
import type { GuardOption } from '../../guard/guard.ts';
import { sensorModeOption } from '../../lib/sensor/mode-option.ts';
import type { SensorModeName } from '../../lib/sensor/modes.ts';

/** As the command line gives them. */
export interface FileAccessOptions {
  readonly allowCallback: readonly string[];
  readonly callbackSecret: readonly string[];
  readonly mode: SensorModeName | 'auto';
}

export const fileAccessOptions: readonly GuardOption[] = [
  {
    flags: '--allow-callback <address>',
    description:
      'an address, network or host name that callbacks may use even if it is blocked by default, such as 127.0.0.1; repeatable',
    on: ['agent', 'standalone'],
    repeatable: true,
  },
  {
    flags: '--callback-secret <secret>',
    description:
      'the Secret for callbacks to an origin (https://host[:port]) whose trap names no Secret, as [ORIGIN=]NAMESPACE/NAME; its keys are token, tls.crt with tls.key, and ca.crt. Without an origin, its ca.crt applies to all https callbacks; repeatable',
    on: ['agent', 'standalone'],
    repeatable: true,
  },
  sensorModeOption,
];
