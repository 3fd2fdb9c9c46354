/**
 * Evaluations a second of a WebAssembly policy in each runtime: a policy in C that looks at the labels of a pod.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import type { PolicyRequest } from '../../guards/policy-audit/engine/evaluator.ts';
import { RegoPolicy } from '../../guards/policy-audit/engine/wasm/guest/rego.ts';
import { WapcPolicy } from '../../guards/policy-audit/engine/wasm/guest/wapc.ts';
import { WasiPolicy } from '../../guards/policy-audit/engine/wasm/guest/wasi.ts';
import type { GuestPolicy } from '../../guards/policy-audit/engine/wasm/messages.ts';
import type { WasmRuntime } from '../../guards/policy-audit/engine/wasm/metadata.ts';
import { openWasmEvaluator } from '../../guards/policy-audit/engine/wasm/open.ts';
import { PolicyPool } from '../../guards/policy-audit/engine/wasm/pool.ts';
import { prepareModule } from '../../guards/policy-audit/engine/wasm/prepare.ts';
import { median, type Part, type Report, type ReportRow } from '../report.ts';

const runtimes: readonly WasmRuntime[] = ['wapc', 'wasi', 'opa', 'gatekeeper'];
const evaluations = 4000;
/** Asked at once of an evaluator. */
const together = 16;
const settings = { required: ['app', 'tier'] };
/** Results of prototypes on one core, with the input serialised each time. */
const prototypes = { wapc: 7000, wasi: 3900, opa: 14_000, gatekeeper: 14_000 } as const;

const host = { ask: () => new Uint8Array(), say: () => undefined };
const inputs = {
  wapc: (text: string) => `{"request":${text},"settings":${JSON.stringify(settings)}}`,
  wasi: (text: string) => `{"request":${text},"settings":${JSON.stringify(settings)}}`,
  opa: (text: string) => `{"request":${text}}`,
  gatekeeper: (text: string) => `{"parameters":${JSON.stringify(settings)},"review":${text}}`,
} as const;

export const runtimesPart: Part = async ({ rounds, shrink, signal, progress }) => {
  const count = Math.ceil(evaluations / shrink);
  const rows: ReportRow[] = [];
  const verdicts: Report['verdicts'][number][] = [];
  for (const runtime of runtimes) {
    progress(runtime);
    const module = Uint8Array.from(
      readFileSync(join(import.meta.dirname, '../../test/policies', `labels.${runtime}.wasm`)),
    );
    const asked = { put: [] as number[], fresh: [] as number[], evaluator: [] as number[] };
    const put = guestOf(module, runtime, true);
    const fresh = guestOf(module, runtime, false);
    await using pool = new PolicyPool({ threads: 1 });
    const hostCalls = { call: () => Promise.reject(new Error('nothing is granted')) };
    await using evaluator = await openWasmEvaluator({ module, settings, hostCalls, pool });
    const evaluate = async (amount: number): Promise<void> => {
      for (let left = amount; left > 0; left -= together) {
        const requests = Array.from({ length: Math.min(left, together) }, (_, at) => pod(at));
        for (const { allowed } of await Promise.all(requests.map((request) => evaluator.evaluate(request)))) {
          if (!allowed) throw new Error(`${runtime} does not allow what it is to allow`);
        }
      }
    };
    const run = (guest: RunningGuest, amount: number): void => {
      for (let at = 0; at < amount; at++) {
        guest.run('validate', inputs[runtime](JSON.stringify(pod(at))), host, undefined);
      }
    };
    // Until V8 has compiled what is worth it.
    run(put, count);
    await evaluate(count);
    for (let round = 0; round < rounds; round++) {
      signal.throwIfAborted();
      asked.put.push(await perSecond(count, () => run(put, count)));
      asked.fresh.push(await perSecond(count, () => run(fresh, count)));
      asked.evaluator.push(await perSecond(count, () => evaluate(count)));
    }
    const [inThread, anew, whole] = [median(asked.put), median(asked.fresh), median(asked.evaluator)];
    rows.push({
      label: runtime,
      cells: {
        'put back': rate(inThread),
        'new instance': rate(anew),
        evaluator: rate(whole),
      },
      values: { putBackPerSecond: inThread, newInstancePerSecond: anew, evaluatorPerSecond: whole },
    });
    verdicts.push({
      target: `${runtime}: at least ${rate(prototypes[runtime])} evaluations a second of one core`,
      measured: rate(inThread),
      met: inThread >= prototypes[runtime],
    });
  }
  return {
    title: 'WebAssembly policies: evaluations a second of one core',
    columns: ['put back', 'new instance', 'evaluator'],
    rows,
    verdicts,
    notes: [
      'A policy in C that looks for two labels, on a review of 3.5 kB; JSON is written and read each time.',
      'A second is one of CPU time of all threads, so other work on the machine matters little.',
      'put back, new instance: in the thread that runs policies. evaluator: asked from outside, 16 at once, one thread.',
    ],
  };
};

interface RunningGuest {
  run(operation: 'validate', input: string, by: typeof host, data: undefined): string;
}

function guestOf(module: Uint8Array, runtime: WasmRuntime, isPutBack: boolean): RunningGuest {
  const memoryPages = 2048;
  const { bytes, restoring, importedMemory } = prepareModule(module, memoryPages);
  const policy: GuestPolicy = {
    id: 1,
    runtime,
    module: new WebAssembly.Module(bytes),
    settings: JSON.stringify(settings),
    memoryPages,
    answerBytes: 2 ** 24,
    restoring: isPutBack ? restoring : undefined,
    importedMemory,
  };
  if (runtime === 'wapc') return new WapcPolicy(policy);
  return runtime === 'wasi' ? new WasiPolicy(policy) : new RegoPolicy(policy);
}

async function perSecond(count: number, work: () => void | Promise<void>): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (count * 1e6) / (user + system);
}

function rate(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}

/** 3.5 kB as JSON. */
function pod(number: number): PolicyRequest {
  const container = (name: string) => ({
    name,
    image: `registry.example/${name}:1.${number}`,
    env: Array.from({ length: 10 }, (_, at) => ({ name: `VARIABLE_${at}`, value: `value ${at} of ${name}` })),
    resources: { requests: { cpu: '100m', memory: '128Mi' }, limits: { memory: '256Mi' } },
    securityContext: { runAsNonRoot: true, allowPrivilegeEscalation: false },
    volumeMounts: [{ name: 'data', mountPath: '/data', readOnly: true }],
  });
  return {
    uid: '705ab4f5-6393-11e8-b7cc-42010a800002',
    operation: 'CREATE',
    kind: { group: '', version: 'v1', kind: 'Pod' },
    resource: { group: '', version: 'v1', resource: 'pods' },
    name: `web-${number}`,
    namespace: 'shop',
    userInfo: { username: 'anna', groups: ['system:authenticated'] },
    object: {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: {
        name: `web-${number}`,
        namespace: 'shop',
        labels: { app: 'web', tier: 'front', number: String(number) },
        annotations: { note: 'x'.repeat(600) },
      },
      spec: {
        containers: [container('web'), container('sidecar')],
        volumes: [{ name: 'data', emptyDir: {} }],
        tolerations: [{ key: 'node', operator: 'Exists', effect: 'NoExecute' }],
        serviceAccountName: 'web',
      },
    },
    oldObject: null,
    dryRun: false,
  };
}
