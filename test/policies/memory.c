// Keeps state in memory and in a WebAssembly global: how often it was called, and the previous object's name. A policy whose
// instance is reset for each request always says "call 1 after nobody, global 1".
// runtimes: wapc wasi opa gatekeeper
#include "policy.h"

METADATA({"protocolVersion" : "v1", "executionMode" : MODE, "mutating" : false, "rules" : []});

__asm__(".globaltype counter, i32\ncounter:\n");

static int count_in_global(void) {
  int value;
  __asm__ volatile(
      "global.get counter\n"
      "i32.const 1\n"
      "i32.add\n"
      "global.set counter\n"
      "global.get counter\n"
      "local.set %0\n"
      : "=r"(value));
  return value;
}

static int calls;
static char before[256] = "nobody";

answer validate(text request, text settings) {
  // {"grow": true}: allocates memory that it never frees.
  if (equals(json_get(settings, "grow"), "true")) __builtin_wasm_memory_grow(0, 2);
  answer no = reject(format("call %d after %s, global %d", ++calls, before, count_in_global()));
  text name = json_unquoted(json_get(request, "object.metadata.name"));
  snprintf(before, sizeof before, "%.*s", SHOW(name));
  return no;
}

text check_settings(text settings) { return text_of(""); }
