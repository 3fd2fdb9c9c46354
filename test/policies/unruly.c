// Misbehaves as its settings say, {"do": "spin"}, or an object's annotation "do", so that one policy gets good and bad requests.
// runtimes: wapc wasi opa gatekeeper
#include "policy.h"

METADATA({"protocolVersion" : "v1", "executionMode" : MODE, "mutating" : false, "rules" : []});

static answer raw(const char *all) { return (answer){.message = text_of(all), .raw = true}; }

static int deep(volatile int level) { return level == -1 ? 0 : deep(level + 1) + level; }

static answer misbehave(text what) {
  if (equals(what, "\"spin\"")) {
    for (volatile unsigned i = 0;; i++) {
    }
  }
  if (equals(what, "\"trap\"")) __builtin_trap();
  if (equals(what, "\"recurse\"")) return raw(format("%d", deep(0)).at);
  if (equals(what, "\"outside\"")) return raw(*(const char *volatile *)0xfffffff0);
  if (equals(what, "\"grow\"")) {
    // Grows by a page at a time up to 4 GiB, and writes to each.
    for (size_t pages; (pages = __builtin_wasm_memory_grow(0, 1)) != (size_t)-1;) {
      *(volatile char *)(pages * 65536) = 1;
    }
    __builtin_trap();
  }
  if (equals(what, "\"grow-once\"")) __builtin_wasm_memory_grow(0, 3);
  if (equals(what, "\"empty\"")) return raw("");
  if (equals(what, "\"garbage\"")) return raw("\x01\xff{]");
  if (equals(what, "\"list\"")) return raw("[1]");
  if (equals(what, "\"text\"")) return raw("\"accepted\"");
  if (equals(what, "\"object\"")) return raw("{\"msg\":\"no list\"}");
  if (equals(what, "\"wrong\"")) return raw("{\"accepted\":\"yes\"}");
  if (equals(what, "\"null\"")) return raw("null");
  if (equals(what, "\"large\"")) {
    // 32 MiB of one warning.
    size_t size = 32 << 20;
    char *at = malloc(size + 64);
    if (at == 0) __builtin_trap();
    memset(at, 'a', size);
    at[size] = 0;
    return raw(at);
  }
  return accept();
}

answer validate(text request, text settings) {
  text what = json_get(request, "object.metadata.annotations.do");
  return misbehave(what.size > 0 ? what : json_get(settings, "do"));
}

text check_settings(text settings) {
  text what = json_get(settings, "settings");
  if (what.size > 0) {
    answer a = misbehave(what);
    return a.accepted ? text_of("") : a.message;
  }
  return text_of("");
}
