// A policy with the ABI of modules that Open Policy Agent compiles from Rego (1.2 and later): values are JSON texts, and the heap
// only grows. With GATEKEEPER, it uses Gatekeeper's input and output, otherwise those of Open Policy Agent's admission reviews.
#include "policy.h"

#define EXPORT(name) __attribute__((export_name(#name)))

extern unsigned char __heap_base;
static char *heap = (char *)&__heap_base;

__attribute__((import_module("env"), import_name("opa_abort"))) extern void opa_abort(const char *message);
__attribute__((import_module("env"), import_name("opa_builtin2"))) extern const text *opa_builtin2(int id, void *context,
                                                                                                   const text *a,
                                                                                                   const text *b);
__attribute__((import_module("env"), import_name("opa_builtin1"))) extern const text *opa_builtin1(int id, void *context,
                                                                                                   const text *a);

EXPORT(opa_malloc) void *opa_malloc(size_t size) {
  char *at = heap;
  heap += (size + 7) / 8 * 8;
  size_t pages = ((size_t)heap + 65535) / 65536, now = __builtin_wasm_memory_size(0);
  if (pages > now && __builtin_wasm_memory_grow(0, pages - now) == (size_t)-1) opa_abort("out of memory");
  return at;
}

// Also used by the C library.
void *malloc(size_t size) { return opa_malloc(size); }

EXPORT(opa_heap_ptr_get) char *opa_heap_ptr_get(void) { return heap; }
EXPORT(opa_heap_ptr_set) void opa_heap_ptr_set(char *at) { heap = at; }

static const text *value_of(text json) {
  text *value = opa_malloc(sizeof(text));
  *value = json;
  return value;
}

EXPORT(opa_json_parse) const text *opa_json_parse(const char *at, size_t size) { return value_of((text){at, size}); }
EXPORT(opa_value_parse) const text *opa_value_parse(const char *at, size_t size) { return value_of((text){at, size}); }
EXPORT(opa_json_dump) const char *opa_json_dump(const text *value) { return format("%.*s", SHOW(*value)).at; }
EXPORT(opa_value_dump) const char *opa_value_dump(const text *value) { return format("%.*s", SHOW(*value)).at; }
EXPORT(builtins) const text *builtins(void) { return value_of(text_of("{\"sprintf\":0,\"hex.encode\":1}")); }
EXPORT(entrypoints) const text *entrypoints(void) { return value_of(text_of("{\"policy/main\":0}")); }

// Calls the host's builtin.
text rego_sprintf(const char *how, text list) {
  return *opa_builtin2(0, 0, value_of(format("\"%s\"", how)), value_of(list));
}

text rego_hex(text value) { return *opa_builtin1(1, 0, value_of(value)); }

text host_call(const char *space, const char *operation, text payload, bool *failed) {
  *failed = true;
  return text_of("policies in Rego cannot ask the host");
}

// Data of the policy, beside its input.
text rego_data;

#ifdef GATEKEEPER
static text result(text input, text data) {
  answer a = validate(json_get(input, "review"), json_get(input, "parameters"));
  if (a.raw) return a.message;
  return a.accepted ? text_of("[]") : format("[{\"msg\":\"%.*s\"}]", SHOW(a.message));
}
#else
static text result(text input, text data) {
  answer a = validate(json_get(input, "request"), data);
  if (a.raw) return a.message;
  text json = format("{\"response\":{\"allowed\":%s", a.accepted ? "true" : "false");
  if (a.message.size > 0 || a.code != 0) {
    json = format("%.*s,\"status\":{\"message\":\"%.*s\",\"code\":%d}", SHOW(json), SHOW(a.message), a.code);
  }
  if (a.warnings.size > 0) json = format("%.*s,\"warnings\":%.*s", SHOW(json), SHOW(a.warnings));
  if (a.annotations.size > 0) json = format("%.*s,\"auditAnnotations\":%.*s", SHOW(json), SHOW(a.annotations));
  if (a.mutated.size > 0) json = format("%.*s,\"patchType\":\"JSONPatch\",\"patch\":%.*s", SHOW(json), SHOW(a.mutated));
  return format("%.*s}}", SHOW(json));
}
#endif

EXPORT(opa_eval)
const char *opa_eval(void *reserved, int entrypoint, const text *data, const char *input, size_t size, char *heap_at,
                     int how) {
  heap = heap_at;
  if (entrypoint != 0) opa_abort("there is one entrypoint");
  rego_data = *data;
  text found = result((text){input, size}, *data);
  // An undefined result is an empty result set.
  return found.size == 0 ? "[]" : format("[{\"result\":%.*s}]", SHOW(found)).at;
}
