/** The policies of test/policies, opened for a test. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import type { Evaluator, HostCalls, JsonObject, PolicyRequest } from '../evaluator.ts';
import type { WasmRuntime } from './metadata.ts';
import { openWasmEvaluator, type WasmEvaluatorOptions } from './open.ts';

const folder = join(import.meta.dirname, '../../../../test/policies');

export const allRuntimes: readonly WasmRuntime[] = ['wapc', 'wasi', 'opa', 'gatekeeper'];
export type PolicyName =
  'denied' | 'denied-as' | 'denied-rust' | 'inventory' | 'labels' | 'lookup' | 'memory' | 'owner' | 'unruly';

export function policyModule(name: PolicyName, runtime: WasmRuntime): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(readFileSync(join(folder, `${name}.${runtime}.wasm`)));
}

/** For a policy that does not ask. */
export const noHostCalls: HostCalls = {
  call: () => Promise.reject(new Error('nothing is granted')),
};

export function openPolicy(
  name: PolicyName,
  runtime: WasmRuntime,
  settings: JsonObject,
  options: Partial<WasmEvaluatorOptions> = {},
): Promise<Evaluator> {
  const module = policyModule(name, runtime);
  return openWasmEvaluator({ module, settings, hostCalls: noHostCalls, ...options });
}

/** The creation of a pod. */
export function podRequest(metadata: JsonObject = {}, changes: Partial<PolicyRequest> = {}): PolicyRequest {
  return {
    uid: '705ab4f5-6393-11e8-b7cc-42010a800002',
    operation: 'CREATE',
    kind: { group: '', version: 'v1', kind: 'Pod' },
    resource: { group: '', version: 'v1', resource: 'pods' },
    name: 'web',
    namespace: 'shop',
    userInfo: { username: 'anna', groups: ['system:authenticated'] },
    object: {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'web', namespace: 'shop', ...metadata },
      spec: { containers: [{ name: 'web', image: 'registry.example/web:1' }] },
    },
    oldObject: null,
    dryRun: false,
    options: null,
    ...changes,
  };
}
