/**
 * Modules that Open Policy Agent compiles from Rego, with its ABI 1 (https://www.openpolicyagent.org/docs/wasm):
 * values are addresses in the guest's heap, which only grows; builtins that the module does not contain are called
 * on the host.
 */
import type { GuestOperation, GuestPolicy, Job } from '../messages.ts';
import { tooLarge } from '../prepare.ts';
import { GuestFailure } from './failure.ts';
import type { GuestHost } from './host.ts';
import { exportedFunction, importsFor, optionalFunction, startBy } from './imports.ts';
import { type Imports, Instances, type StartedInstance } from './instance.ts';
import { GuestMemory } from './memory.ts';
import { preview1 } from './preview1.ts';
import { type Builtin, type BuiltinContext, BuiltinError, newContext } from './builtin.ts';
import { builtins } from './rego-builtins.ts';
import { parseValue, valueText } from './rego-value.ts';

const encoder = new TextEncoder();
/** The JSON format of results. */
const asJson = 0;

type Guest = (input: string, host: GuestHost) => string;

export class RegoPolicy {
  readonly #instances: Instances<Guest>;
  /** The current `data` of the instances. */
  #data: { readonly version: number; readonly text: string };

  constructor(policy: GuestPolicy) {
    this.#data = { version: 0, text: policy.runtime === 'opa' ? policy.settings : '{}' };
    this.#instances = new Instances(policy, (of, imports) => started(of, imports, this.#data.text));
  }

  run(operation: GuestOperation, input: string, host: GuestHost, data: Job['data']): string {
    if (operation === 'validate_settings') return this.#validated();
    if (data !== undefined && data.version !== this.#data.version) {
      if (data.text === undefined)
        throw new GuestFailure('trap', `version ${data.version} of the data does not exist`);
      this.#data = { version: data.version, text: data.text };
      this.#instances.forget();
    }
    return this.#instances.with((guest) => guest(input, host));
  }

  /**
   * Rego's ABI has no validation of settings. But a module that cannot start fails here, before its first
   * evaluation.
   *
   * @throws {GuestFailure}
   */
  #validated(): string {
    this.#instances.with(() => undefined);
    return '{"valid":true}';
  }
}

function started(policy: GuestPolicy, imports: Imports, data: string): StartedInstance<Guest> {
  let host: GuestHost | undefined;
  let context: BuiltinContext | undefined;
  const expressions: BuiltinContext['expressions'] = new Map();
  const max = policy.answerBytes;
  const own = policy.importedMemory === undefined ? undefined : memoryFor(policy);
  let memory = own === undefined ? undefined : new GuestMemory(own);
  const memoryNow = (): GuestMemory => {
    if (memory === undefined) throw new GuestFailure('trap', 'the policy has no memory');
    return memory;
  };
  const named = new Map<number, readonly [name: string, builtin: Builtin]>();
  const call = (id: number, _context: number, ...values: number[]): number => {
    const [name, builtin] = named.get(id) ?? [];
    if (name === undefined || builtin === undefined)
      throw new GuestFailure('trap', `the policy calls builtin ${id}, which it has not declared`);
    context ??= newContext((text) => host?.say(`${text}\n`), expressions);
    try {
      const result = builtin(
        values.map((value) => operand(value)),
        context,
      );
      // For Rego, 0 stands for an undefined result.
      return result === undefined ? 0 : loaded(valueText(result), toValue);
    } catch (error) {
      if (!(error instanceof BuiltinError)) throw error;
      throw new GuestFailure('trap', `the builtin ${name} failed: ${error.message}`);
    }
  };
  const env = {
    memory: own,
    opa_abort(address: number) {
      const why = memoryNow().textAt(address, max);
      throw new GuestFailure(why.includes('out of memory') ? 'memory' : 'trap', `the policy aborted: ${why}`);
    },
    opa_println: (address: number) => host?.say(`${memoryNow().textAt(address, max)}\n`),
    opa_builtin0: call,
    opa_builtin1: call,
    opa_builtin2: call,
    opa_builtin3: call,
    opa_builtin4: call,
  };
  const wasi = preview1(memoryNow, {
    args: [],
    stdin: [],
    write: (_stream, bytes) => host?.say(new TextDecoder().decode(bytes)),
  });
  const instance = new WebAssembly.Instance(policy.module, importsFor(imports, { env, wasi }));
  const version = instance.exports['opa_wasm_abi_version'];
  if (version instanceof WebAssembly.Global && version.value !== 1) {
    throw new GuestFailure(
      'trap',
      `the policy has version ${String(version.value)} of Open Policy Agent's ABI; only 1 is supported`,
    );
  }
  const exported = instance.exports['memory'];
  if (memory === undefined && exported instanceof WebAssembly.Memory) memory = new GuestMemory(exported);
  startBy(instance, ['_initialize']);
  const malloc = exportedFunction<(size: number) => number>(instance, 'opa_malloc');
  const parse = exportedFunction<(address: number, size: number) => number>(instance, 'opa_json_parse');
  const dump = exportedFunction<(value: number) => number>(instance, 'opa_json_dump');
  // The oldest modules can pass values only as JSON, which loses sets and keys that are not strings.
  const [toValue, fromValue] = [
    optionalFunction<typeof parse>(instance, 'opa_value_parse') ?? parse,
    optionalFunction<typeof dump>(instance, 'opa_value_dump') ?? dump,
  ];
  const operand = (value: number): unknown => parseValue(memoryNow().textAt(fromValue(value), max));
  const loaded = (text: string, parser = parse): number => {
    const bytes = encoder.encode(text);
    const address = malloc(bytes.length);
    memoryNow().write(address, bytes);
    const value = parser(address, bytes.length);
    if (value === 0) throw new GuestFailure('trap', 'the policy cannot read the value that it was given');
    return value;
  };
  const wanted = JSON.parse(
    memoryNow().textAt(dump(exportedFunction<() => number>(instance, 'builtins')()), max),
  ) as Record<string, number>;
  for (const [name, id] of Object.entries(wanted)) {
    const builtin = Object.hasOwn(builtins, name) ? builtins[name] : undefined;
    if (builtin !== undefined) named.set(id, [name, builtin]);
  }
  const missing = Object.keys(wanted).filter((name) => !Object.hasOwn(builtins, name));
  if (missing.length > 0) {
    const names = missing.toSorted().join(', ');
    throw new GuestFailure('trap', `the policy needs builtins of Rego that are not available: ${names}`);
  }
  const evaluate = evaluation(instance, { memory: memoryNow(), data: loaded(data), dump, loaded, max });
  const guest: Guest = (input, askedBy) => {
    host = askedBy;
    try {
      return evaluate(encoder.encode(input));
    } finally {
      host = undefined;
      context = undefined;
    }
  };
  return { guest, instance };
}

interface Evaluation {
  readonly memory: GuestMemory;
  readonly data: number;
  readonly dump: (value: number) => number;
  readonly loaded: (text: string) => number;
  readonly max: number;
}

/** Evaluates the first entrypoint: by the single call of ABI 1.2, or else step by step. */
function evaluation(
  instance: WebAssembly.Instance,
  { memory, data, dump, loaded, max }: Evaluation,
): (input: Uint8Array) => string {
  const heap = exportedFunction<() => number>(instance, 'opa_heap_ptr_get');
  if (typeof instance.exports['opa_eval'] === 'function') {
    const evaluate = exportedFunction<(...args: number[]) => number>(instance, 'opa_eval');
    const malloc = exportedFunction<(size: number) => number>(instance, 'opa_malloc');
    return (input) => {
      // Allocated by the guest itself, which knows when its memory must grow.
      const address = malloc(input.length);
      memory.write(address, input);
      return memory.textAt(evaluate(0, 0, data, address, input.length, heap(), asJson), max);
    };
  }
  const function1 = (name: string) => exportedFunction<(...args: number[]) => number>(instance, name);
  const [context, setInput, setData] = [
    'opa_eval_ctx_new',
    'opa_eval_ctx_set_input',
    'opa_eval_ctx_set_data',
  ].map(function1);
  const [evaluate, result] = ['eval', 'opa_eval_ctx_get_result'].map(function1);
  return (input) => {
    const at = context?.() ?? 0;
    setInput?.(at, loaded(new TextDecoder().decode(input)));
    setData?.(at, data);
    evaluate?.(at);
    return memory.textAt(dump(result?.(at) ?? 0), max);
  };
}

function memoryFor({ importedMemory, memoryPages }: GuestPolicy): WebAssembly.Memory {
  const { min, max } = importedMemory ?? { min: 0, max: undefined };
  if (min > memoryPages) throw new GuestFailure('memory', tooLarge(min, memoryPages).message);
  const maximum = Math.min(max ?? memoryPages, memoryPages);
  return new WebAssembly.Memory({ initial: min, maximum });
}
