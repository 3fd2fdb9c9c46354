/** The command-line options of this guard. */
import type { GuardOption, OptionValues } from '../../guard/guard.ts';
import { choice, texts } from '../../guard/option-values.ts';
import { sensorModeOption } from '../../lib/sensor/mode-option.ts';
import type { SensorModeName } from '../../lib/sensor/modes.ts';
import { type CallbackDefault, parseCallbackDefaults } from './delivery/callback-defaults.ts';
import { parsePolicyNamespaces, type PolicyScope } from './policy/policy-scope.ts';

export interface FileAccessOptions {
  readonly allowedCallbacks: readonly string[];
  readonly callbackSecrets: readonly CallbackDefault[];
  readonly mode: SensorModeName | 'auto';
  readonly policyScope: PolicyScope;
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
  {
    flags: '--kive-policy-namespaces <namespaces>',
    description:
      'namespaces, besides kivebpf-system and rampart-system, whose KivePolicies match pods of all namespaces; * for every namespace. KivePolicies elsewhere match only pods of their own namespace. Must be the same for the agents and the operator; repeatable',
    on: ['agent', 'operator', 'standalone'],
    repeatable: true,
  },
  sensorModeOption,
];

/** @throws {RampartError} `INPUT` for an invalid `--callback-secret` or namespace */
export function parseFileAccessOptions(values: OptionValues): FileAccessOptions {
  return {
    allowedCallbacks: texts(values, 'allowCallback'),
    callbackSecrets: parseCallbackDefaults(texts(values, 'callbackSecret')),
    mode: choice(values, 'mode', sensorModeOption.choices),
    policyScope: parsePolicyNamespaces(texts(values, 'kivePolicyNamespaces')),
  };
}
