/**
 * `denied.c` in AssemblyScript, as a waPC guest: refuses objects whose name is among {"denied": [...]},
 * which must not be empty.
 */
import { get, members } from './json';

// @ts-ignore: AssemblyScript's decorators of imports
@external('wapc', '__guest_request')
declare function guestRequest(operation: usize, payload: usize): void;
// @ts-ignore
@external('wapc', '__guest_response')
declare function guestResponse(at: usize, size: usize): void;
// @ts-ignore
@external('wapc', '__guest_error')
declare function guestError(at: usize, size: usize): void;

/** AssemblyScript calls this when it aborts, instead of its own import. */
export function gaveUp(_message: string | null, _file: string | null, _line: u32, _column: u32): void {
  unreachable();
}

export function __guest_call(operationSize: i32, size: i32): i32 {
  const operation = new ArrayBuffer(operationSize);
  const payload = new ArrayBuffer(size);
  guestRequest(changetype<usize>(operation), changetype<usize>(payload));
  const asked = String.UTF8.decode(operation);
  let answer = '';
  if (asked == 'validate') answer = validate(String.UTF8.decode(payload));
  else if (asked == 'validate_settings') answer = checkSettings(String.UTF8.decode(payload));
  else if (asked == 'protocol_version') answer = '"v1"';
  const text = String.UTF8.encode(answer == '' ? 'no operation ' + asked : answer);
  if (answer == '') guestError(changetype<usize>(text), text.byteLength);
  else guestResponse(changetype<usize>(text), text.byteLength);
  return answer == '' ? 0 : 1;
}

function validate(json: string): string {
  const name = get(json, ['request', 'object', 'metadata', 'name']);
  const denied = members(get(json, ['settings', 'denied']));
  for (let at = 0; at < denied.length; at++) {
    if (denied[at].value == name) {
      return '{"accepted":false,"message":"' + name.slice(1, -1) + ' is denied"}';
    }
  }
  return '{"accepted":true}';
}

function checkSettings(json: string): string {
  const some = members(get(json, ['denied'])).length > 0;
  return some ? '{"valid":true}' : '{"valid":false,"message":"no name is denied"}';
}
