// Makes the host calls in its settings, {"calls": [{"namespace": "kubernetes", "operation": "get_resource", "payload": ...}]}, and
// returns their answers, one message for each.
// runtimes: wapc wasi
#include "policy.h"

METADATA({
  "protocolVersion" : "v1",
  "executionMode" : MODE,
  "mutating" : false,
  "rules" : [],
  "contextAwareResources" : [ {"apiVersion" : "v1", "kind" : "Namespace"}, {"apiVersion" : "apps/v1", "kind" : "Deployment"} ]
});

static const char *c_string(text value) { return format("%.*s", SHOW(json_unquoted(value))).at; }

// Escapes a text for a JSON string.
static text escaped(text value) {
  char *at = malloc(2 * value.size + 1);
  size_t size = 0;
  for (size_t i = 0; i < value.size; i++) {
    if (value.at[i] == '"' || value.at[i] == '\\') at[size++] = '\\';
    at[size++] = value.at[i];
  }
  return (text){at, size};
}

answer validate(text request, text settings) {
  text said = text_of(""), key, call;
  const char *at = 0;
  bool all_failed = false;
  while (json_next(json_get(settings, "calls"), &at, &key, &call)) {
    text times = json_get(call, "times");
    for (int left = times.size > 0 ? atoi(times.at) : 1; left > 0; left--) {
      bool failed;
      text got = host_call(c_string(json_get(call, "namespace")), c_string(json_get(call, "operation")),
                           json_get(call, "payload"), &failed);
      if (left == 1) {
        said = format("%.*s%s%s%.*s", SHOW(said), said.size > 0 ? " | " : "", failed ? "error: " : "", SHOW(escaped(got)));
      }
      all_failed = all_failed || failed;
    }
  }
  answer a = accept();
  a.accepted = !all_failed;
  a.message = said;
  return a;
}

text check_settings(text settings) { return text_of(""); }
