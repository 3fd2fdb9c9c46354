/** JSON as text, read in place: enough for a policy that looks at a few fields. */
export class Member {
  constructor(
    public name: string,
    public value: string,
  ) {}
}

const quote: i32 = 0x22;
const comma: i32 = 0x2c;

function space(text: string, at: i32): i32 {
  while (at < text.length && text.charCodeAt(at) <= 0x20) at++;
  return at;
}

function opens(code: i32): bool {
  return code == 0x5b || code == 0x7b;
}

function closes(code: i32): bool {
  return code == 0x5d || code == 0x7d;
}

/** The end of the value that begins at `at`. */
function skip(text: string, at: i32): i32 {
  if (text.charCodeAt(at) == quote) {
    for (at++; at < text.length && text.charCodeAt(at) != quote; at++) {
      if (text.charCodeAt(at) == 0x5c) at++;
    }
    return at + 1;
  }
  let depth = 0;
  while (at < text.length) {
    const code = text.charCodeAt(at);
    if (code == quote) {
      at = skip(text, at);
      continue;
    }
    if (depth == 0 && (code == comma || closes(code))) return at;
    if (opens(code)) depth++;
    if (closes(code) && --depth == 0) return at + 1;
    at++;
  }
  return at;
}

/** The members of an object, or the items of a list with empty names. Values keep their quotes and escapes. */
export function members(json: string): Member[] {
  const found: Member[] = [];
  if (json.length == 0 || !opens(json.charCodeAt(0))) return found;
  const isObject = json.charCodeAt(0) == 0x7b;
  let at = space(json, 1);
  while (at < json.length && !closes(json.charCodeAt(at))) {
    let name = '';
    if (isObject) {
      const end = skip(json, at);
      name = json.substring(at + 1, end - 1);
      at = space(json, space(json, end) + 1);
    }
    const end = skip(json, at);
    found.push(new Member(name, json.substring(at, end).trimEnd()));
    at = space(json, end);
    if (at < json.length && json.charCodeAt(at) == comma) at = space(json, at + 1);
  }
  return found;
}

/** By a path of members; empty if one is missing. */
export function get(json: string, path: string[]): string {
  for (let step = 0; step < path.length; step++) {
    const all = members(json);
    json = '';
    for (let at = 0; at < all.length; at++) {
      if (all[at].name == path[step]) json = all[at].value;
    }
  }
  return json;
}
