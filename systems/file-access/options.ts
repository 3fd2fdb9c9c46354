/**
 * What a user may say of this guard on the command line.
 *
 * @module
 */
import type { GuardOption } from '../../shared/guard/guard.ts';
import { sensorModeOption } from '../../shared/sensor/mode-option.ts';
import type { SensorModeName } from '../../shared/sensor/modes.ts';

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
      'an address, network or name that callbacks may go to although it is refused by default, such as 127.0.0.1; repeatable',
    on: ['agent', 'standalone'],
    repeatable: true,
  },
  {
    flags: '--callback-secret <secret>',
    description:
      'as [ORIGIN=]NAMESPACE/NAME: the Secret for callbacks to this origin (https://host[:port]) whose trap names none; its keys token, ' +
      'tls.crt with tls.key, and ca.crt are used. Without an origin for all https callbacks, and only ca.crt; repeatable',
    on: ['agent', 'standalone'],
    repeatable: true,
  },
  sensorModeOption,
];
