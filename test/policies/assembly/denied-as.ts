/**
 * `denied.c` in AssemblyScript, as a module of Open Policy Agent's ABI 1.3: refuses objects whose name is among
 * {"denied": [...]}. Values are JSON texts; the heap only grows, so a host puts the memory back or starts anew.
 */
import { get, members } from './json';

// @ts-ignore: AssemblyScript's decorators of imports
@external('env', 'opa_abort')
declare function opa_abort(message: usize): void;
// @ts-ignore
@external('env', 'opa_builtin2')
declare function opa_builtin2(id: i32, context: usize, a: usize, b: usize): usize;

export const opa_wasm_abi_version: i32 = 1;
export const opa_wasm_abi_minor_version: i32 = 3;

/** AssemblyScript calls this when it aborts, instead of its own import. */
export function gaveUp(message: string | null, _file: string | null, _line: u32, _column: u32): void {
  opa_abort(changetype<usize>(String.UTF8.encode(message === null ? 'aborted' : message, true)));
  unreachable();
}

export function opa_malloc(size: usize): usize {
  return heap.alloc(size);
}

export function opa_heap_ptr_get(): usize {
  return heap.alloc(0);
}

export function opa_heap_ptr_set(_at: usize): void {}

function valueOf(json: string): usize {
  return changetype<usize>(json);
}

export function opa_json_parse(at: usize, size: usize): usize {
  return valueOf(String.UTF8.decodeUnsafe(at, size));
}

export function opa_value_parse(at: usize, size: usize): usize {
  return opa_json_parse(at, size);
}

export function opa_json_dump(value: usize): usize {
  return changetype<usize>(String.UTF8.encode(changetype<string>(value), true));
}

export function opa_value_dump(value: usize): usize {
  return opa_json_dump(value);
}

export function builtins(): usize {
  return valueOf('{"sprintf":0}');
}

export function entrypoints(): usize {
  return valueOf('{"policy/main":0}');
}

export function opa_eval(
  _reserved: usize,
  entrypoint: i32,
  data: usize,
  input: usize,
  size: usize,
  _heap: usize,
  _format: i32,
): usize {
  if (entrypoint != 0) gaveUp('there is one entrypoint', null, 0, 0);
  const name = get(String.UTF8.decodeUnsafe(input, size), ['request', 'object', 'metadata', 'name']);
  const denied = members(get(changetype<string>(data), ['denied']));
  let response = '{"allowed":true}';
  for (let at = 0; at < denied.length; at++) {
    if (denied[at].value != name) continue;
    const message = opa_builtin2(0, 0, valueOf('"%s is denied"'), valueOf('[' + name + ']'));
    response = '{"allowed":false,"status":{"message":' + changetype<string>(message) + '}}';
  }
  return opa_json_dump(valueOf('[{"result":{"response":' + response + '}}]'));
}
